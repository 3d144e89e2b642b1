"""A widget as one HTML file that needs neither a kernel nor a network."""
