"""A private server, for those who run none."""
