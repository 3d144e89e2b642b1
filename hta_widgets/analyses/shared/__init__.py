"""Shared by several analyses."""
