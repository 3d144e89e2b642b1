"""What figures are made of: drawings, styles, text, bars, lines."""
