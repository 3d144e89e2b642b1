"""Where the time of a GPU goes, in classes that add up to it."""
