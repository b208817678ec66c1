"""The blocking client, for those who move whole pages and chunks."""
