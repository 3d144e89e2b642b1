"""One rank: where its trace is, loading it, and what is derived from it."""
