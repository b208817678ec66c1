"""Sensors: wait for jobs."""
