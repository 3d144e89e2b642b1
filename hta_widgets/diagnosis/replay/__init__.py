"""Replay a recorded job with something changed: what a step takes without a cause."""
