"""The run directory, jobs, sessions and engines."""
