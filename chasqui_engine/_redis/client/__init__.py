"""The client: connections that many tasks share, and where a URL leads."""
