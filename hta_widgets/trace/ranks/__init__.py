"""One rank: its source, loading it here or in workers, and data derived from it."""
