"""What is asked of the server, a module for each kind of key, and the Lua scripts."""
