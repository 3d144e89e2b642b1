"""Results and events as HTA's tables: its column names, column order, sort order and units (µs)."""
