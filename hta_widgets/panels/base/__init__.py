"""Building blocks of panels: controls, selection, view, front end."""
