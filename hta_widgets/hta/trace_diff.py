"""Names of ``hta.trace_diff``."""

from hta_widgets.trace_diff import DeviceType, LabeledTrace, TraceDiff

__all__ = ["DeviceType", "LabeledTrace", "TraceDiff"]
