"""Write copies of traces: with added events, as excerpts, or without private names."""
