"""What a worker does to have no more jobs, and no other ones, than the queue's order allows."""
