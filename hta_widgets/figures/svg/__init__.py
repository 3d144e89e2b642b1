"""Drawings as SVG, without a browser: the picture in a saved notebook."""
