"""`chasqui bulk`: reads rows from files and pipes, and adds them as jobs."""
