"""Drawings as SVG, made without a browser: the picture in a saved notebook."""
