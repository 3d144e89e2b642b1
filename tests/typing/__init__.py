"""Checked by mypy, never run: what editors know about the package."""
