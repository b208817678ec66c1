"""Jobs that wake DAGs: one asset event for each, and one run for each event."""
