"""`chasqui bulk`: rows from files and pipes, on their way to the server."""
