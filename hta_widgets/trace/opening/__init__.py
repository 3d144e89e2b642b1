"""What was given: its format, its ranks, and the job that they make."""
