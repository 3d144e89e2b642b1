"""Results and events as HTA's tables, with its column names, column order, sort order and units."""
