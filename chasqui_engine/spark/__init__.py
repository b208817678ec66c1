"""Queues as DataFrames: the data source `format("chasqui")`."""
