"""Loaders: one folder for each trace format, and what they share."""
