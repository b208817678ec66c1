"""Queues as DataFrames: the data source `format("chasqui")`, and the pipeline from events to answers."""
