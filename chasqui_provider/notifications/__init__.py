"""Notifiers: a job for a callback."""
