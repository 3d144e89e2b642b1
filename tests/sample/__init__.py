"""The simulator behind the sample jobs."""
