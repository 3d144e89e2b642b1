"""Panel of the timeline, with the messages and encodings that it exchanges with the page."""

from hta_widgets.panels.timeline.panel import TimelinePanel

__all__ = ["TimelinePanel"]
