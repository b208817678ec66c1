"""The process that this runs in: its clock, its event loop, its operating system, its name."""
