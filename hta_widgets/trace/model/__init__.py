"""Events of one rank, and what is derived from them, whatever the trace format."""
