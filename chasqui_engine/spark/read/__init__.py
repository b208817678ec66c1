"""Queues as DataFrames and streams: what reading tasks do."""
