"""Time of one rank by call path, as a flame graph."""

from hta_widgets.analyses.flame.analysis import Flame, collapsed_stacks, flame

__all__ = ["Flame", "collapsed_stacks", "flame"]
