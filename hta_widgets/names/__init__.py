"""Kernel names: demangling, comparing across profilers, and shortening."""
