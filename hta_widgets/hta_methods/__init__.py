"""Methods of `TraceAnalysis`, a file for each family."""
