"""The only place that knows the redis client."""
