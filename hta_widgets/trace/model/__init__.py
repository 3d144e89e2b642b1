"""Events of one rank and what is derived from them, independent of the trace format."""
