"""Functions that are called when something happens to a worker or to a job that it runs."""
