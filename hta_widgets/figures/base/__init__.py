"""Building blocks of figures: drawings, styles, text, bars, lines."""
