"""How close operators come to what their GPU can do."""

from hta_widgets.analyses.roofline.analysis import Roofline, roofline
from hta_widgets.analyses.roofline.peaks import Peak, peak_of
from hta_widgets.analyses.roofline.sums import over_ranks

__all__ = ["Peak", "Roofline", "over_ranks", "peak_of", "roofline"]
