"""The hook: a connection becomes a queue."""
