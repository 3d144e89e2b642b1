"""Write copies of traces with events added."""
