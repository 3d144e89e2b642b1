"""Names of ``hta.trace_analysis``."""

from hta_widgets.trace_analysis import TimeSeriesTypes, TraceAnalysis

__all__ = ["TimeSeriesTypes", "TraceAnalysis"]
