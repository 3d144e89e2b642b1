"""What changed between two jobs: what a step takes, where, and whether that is more than noise."""
