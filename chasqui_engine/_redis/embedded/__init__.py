"""A private server on a unix socket."""
