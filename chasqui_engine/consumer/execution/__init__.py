"""How a handler is run: in the event loop, in a thread, or in a process."""
