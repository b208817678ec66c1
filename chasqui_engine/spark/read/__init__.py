"""Reading queues, as DataFrames and as streams."""
