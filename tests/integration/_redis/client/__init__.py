"""Every way to a server, and every way in which a connection can fail."""
