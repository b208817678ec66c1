"""How a worker shows that it lives, and what it says of itself."""
