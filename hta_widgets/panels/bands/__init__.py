"""What a dashboard shows around its panels: header, verdict, budget, tabs and details."""
