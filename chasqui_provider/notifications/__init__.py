"""Notifiers: callbacks that add a job."""
