"""What changed between two jobs: how long a step takes, where, and whether it is only noise."""
