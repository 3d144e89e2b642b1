"""What a recorder got wrong, counted for each rank from its events alone."""
