"""What people read: text, times and tables, safe for a terminal."""
