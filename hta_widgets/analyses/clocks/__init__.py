"""How far apart the clocks of the ranks are, from the collectives that end together."""

from hta_widgets.analyses.clocks.analysis import Clocks, clocks

__all__ = ["Clocks", "clocks"]
