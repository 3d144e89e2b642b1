"""Shared by analyses that attribute time to CPU calls: how calls nest, windows, causes."""
