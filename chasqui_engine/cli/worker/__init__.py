"""`chasqui worker`: one process, or a group of them, and the line at the bottom of the terminal."""
