"""Launches made before an earlier kernel has ended: how much of the launch time that hides."""

from hta_widgets.analyses.launch_overlap.analysis import LaunchOverlap, launch_overlap

__all__ = ["LaunchOverlap", "launch_overlap"]
