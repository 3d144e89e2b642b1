"""Figures of results; nothing here displays them."""
