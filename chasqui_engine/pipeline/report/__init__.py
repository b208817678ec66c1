"""The report: a summary in JSON, and one page that stands alone."""
