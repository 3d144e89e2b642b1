"""Write traces: copies of the originals with something added."""
