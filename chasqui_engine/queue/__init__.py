"""Putting jobs on a queue."""
