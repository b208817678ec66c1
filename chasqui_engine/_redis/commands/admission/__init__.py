"""Commands that decide which jobs come to the stream, and when."""
