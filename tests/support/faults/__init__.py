"""Processes that are killed and servers that go away, with an account of what became of the jobs."""
