"""Modules of ``hta.analyzers``."""
