"""Open a job: recognise formats, find ranks, fetch from URLs."""
