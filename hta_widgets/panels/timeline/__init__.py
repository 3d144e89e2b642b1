"""Panel of the timeline."""

from hta_widgets.panels.timeline.panel import TimelinePanel

__all__ = ["TimelinePanel"]
