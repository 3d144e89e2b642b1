"""Replay a recorded job with something changed, to find how long a step takes without a cause."""
