"""The API: what a page asks for, and what it may change."""
