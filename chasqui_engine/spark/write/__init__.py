"""DataFrames and streams into queues, each row once."""
