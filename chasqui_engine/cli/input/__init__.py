"""What people type: options, answers, completion, and secrets that do not stay on a command line."""
