"""What time is counted (windows, steps), and what it belongs to (calls, modules, causes)."""
