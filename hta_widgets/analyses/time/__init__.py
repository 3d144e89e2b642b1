"""Which time counts (windows, steps), and what it belongs to (calls, modules, causes)."""
