"""Where to see a finding: all intervals of its cause, and the windows that show most of them."""
