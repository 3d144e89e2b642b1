"""Computation, communication, both or neither: compared across ranks, and over time."""

from hta_widgets.analyses.rank_overlap.analysis import RankOverlap, rank_overlap

__all__ = ["RankOverlap", "rank_overlap"]
