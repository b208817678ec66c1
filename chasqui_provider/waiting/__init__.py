"""Waiting for jobs: in a worker, in the triggerer, and what a task returns or raises in the end."""
