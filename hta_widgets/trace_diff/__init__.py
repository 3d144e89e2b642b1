"""HTA's `TraceDiff`: which operators and kernels two traces run, how often and for how long."""

from hta_widgets.trace_diff.diff import TraceDiff
from hta_widgets.trace_diff.labeled_trace import DeviceType, LabeledTrace

__all__ = ["DeviceType", "LabeledTrace", "TraceDiff"]
