"""Triggers: wait without a worker slot, and trigger DAGs."""
