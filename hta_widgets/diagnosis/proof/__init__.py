"""Where a finding is seen: all intervals of its cause, and the windows that show most of them."""
