"""The API: queries and actions of the pages."""
