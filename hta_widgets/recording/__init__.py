"""Record a trace with torch.profiler, and show it."""
