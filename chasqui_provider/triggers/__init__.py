"""Triggers: wait without a worker slot, and wake DAGs."""
