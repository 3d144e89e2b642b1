"""The user's cache folder and the files of columns in it."""
