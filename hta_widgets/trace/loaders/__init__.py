"""One folder for each format, and what the loaders share."""
