"""Long runs under load; only by `make soak`."""
