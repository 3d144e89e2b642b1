"""Computation, communication, both or neither: each rank beside the others, and over time."""

from hta_widgets.analyses.rank_overlap.analysis import RankOverlap, rank_overlap

__all__ = ["RankOverlap", "rank_overlap"]
