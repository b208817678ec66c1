"""Operators: add jobs to a queue and manage it."""
