"""What pages follow live: each queue is polled once, however many watch it."""
