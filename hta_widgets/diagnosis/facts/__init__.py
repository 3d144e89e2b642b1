"""What one rank shows: asked of each by itself, and small."""
