"""Waiting for jobs: in a worker, in the triggerer, and what a task finally returns or raises."""
