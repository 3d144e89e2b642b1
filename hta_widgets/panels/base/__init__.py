"""What every panel is made of: controls, selection, view, front end."""
