"""The blocking client, which moves whole pages and chunks."""
