"""The commands sent to the server, a module for each kind of key, and the Lua scripts."""
