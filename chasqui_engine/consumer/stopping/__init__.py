"""When a consumer stops by itself: its queue is empty, it has run enough jobs, or its process takes too much memory."""
