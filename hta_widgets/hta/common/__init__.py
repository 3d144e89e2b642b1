"""Modules of ``hta.common``."""
