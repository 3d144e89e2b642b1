"""Launches that start before an earlier kernel has ended, and the launch time that this hides."""

from hta_widgets.analyses.launch_overlap.analysis import LaunchOverlap, launch_overlap

__all__ = ["LaunchOverlap", "launch_overlap"]
