"""Commands on the order of jobs, and on how many run."""
