"""Job and parameters to result. Pure: no plotting, no widgets, no files."""
