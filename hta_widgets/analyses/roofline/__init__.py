"""How close operators come to the peak of their GPU."""

from hta_widgets.analyses.roofline.analysis import Roofline, over_ranks, roofline
from hta_widgets.analyses.roofline.peaks import Peak, peak_of

__all__ = ["Peak", "Roofline", "over_ranks", "peak_of", "roofline"]
