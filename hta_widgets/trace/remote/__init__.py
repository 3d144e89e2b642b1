"""URLs: displaying them, listing and fetching their files, and local copies."""
