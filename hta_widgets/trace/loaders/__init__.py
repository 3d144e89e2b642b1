"""Loaders: one folder per trace format, and the code that they share."""
