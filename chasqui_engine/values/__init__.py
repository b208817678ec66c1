"""Values: jobs, settings, errors, and what checks them. They know nothing outside themselves."""
