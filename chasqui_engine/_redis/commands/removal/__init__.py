"""Commands that take jobs away: those that wait, and, as aborts, those that run."""
