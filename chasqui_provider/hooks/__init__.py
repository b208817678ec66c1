"""The hook: turns a connection into queues."""
