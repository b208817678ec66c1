"""Faults for real: real processes, real servers, a ledger at the end."""
