"""Files of columns in the user's cache folder."""
