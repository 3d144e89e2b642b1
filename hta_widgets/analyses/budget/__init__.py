"""What the time of a GPU goes to, in classes that add up to it."""
