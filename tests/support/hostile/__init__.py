"""Bytes, entries and texts that nobody meant to write, made by a seed."""
