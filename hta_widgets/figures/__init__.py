"""Result to plotly figure. Nothing here shows anything."""
