"""Facts about one rank: computed for each rank by itself, and small enough to keep for hundreds."""
