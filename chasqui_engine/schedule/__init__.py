"""Repeatable jobs: cron patterns, specs, plans of fires, and where specs are stored."""
