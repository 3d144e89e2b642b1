"""Comparison of two jobs: kernels, times, and the longest events."""

from hta_widgets.analyses.compare.analysis import Compare, compare, job_names, steps_differ

__all__ = ["Compare", "compare", "job_names", "steps_differ"]
