"""The report: a summary in JSON, and one page that needs nothing else."""
