"""Operators: put jobs on a queue, and manage what is on it."""
