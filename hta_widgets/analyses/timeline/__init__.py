"""What every rank does at each instant, for any window of time."""

from hta_widgets.analyses.timeline.analysis import Timeline, timeline

__all__ = ["Timeline", "timeline"]
