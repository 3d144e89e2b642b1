"""Folders of CUPTI tables."""
