"""HTA's view of a job: a frame of events for each rank, a table of symbols, and filters."""
