"""HTA's view of a job: a frame of events per rank, a table of symbols, and filters."""
