"""The current process: its clock, event loop, operating system and name."""
