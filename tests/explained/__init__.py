"""What each sentence of a dashboard has to say, worked out again from tables and evidence."""
