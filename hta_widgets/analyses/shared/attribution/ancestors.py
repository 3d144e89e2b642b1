"""The nearest call of a kind around each call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.model.cut_forest import CutForest
from hta_widgets.trace.model.nesting import NO_PARENT

Places = NDArray[np.int64]


def nearest_at_or_above(forest: CutForest, chosen: NDArray[np.bool_]) -> Places:
    """The innermost of some calls at or around each call.

    Parameters
    ----------
    forest : CutForest
    chosen : ndarray of bool
        Which calls, by place.

    Returns
    -------
    ndarray of int64
        Its place for each place, -1 where there is none.
    """
    places = np.flatnonzero(chosen)
    above = _above_among(forest, places)
    everywhere = np.arange(chosen.size)
    found = np.searchsorted(places, everywhere, side="right") - 1
    ends = forest.ends[places]
    passed = np.flatnonzero((found >= 0) & (ends[found] <= everywhere)) if places.size else places
    while passed.size:
        found[passed] = above[found[passed]]
        around = found[passed]
        passed = passed[(around >= 0) & (ends[around] <= passed)]
    return np.where(found >= 0, np.append(places, NO_PARENT)[found], NO_PARENT)


def nearest_above(forest: CutForest, chosen: NDArray[np.bool_]) -> Places:
    """The innermost of some calls around each call, which is not the call itself."""
    at_or_above = np.append(nearest_at_or_above(forest, chosen), NO_PARENT)
    return at_or_above[forest.parent]


def _above_among(forest: CutForest, places: Places) -> Places:
    """For each of some calls, in order of place, which of them is the nearest around it.

    Every call around one of them is also around the one before, or is it. A candidate that has
    ended is replaced by its own candidate, so that a chain is half as long after each pass.
    """
    ends = forest.ends[places]
    found = np.arange(places.size) - 1
    passed = np.arange(1, places.size)
    while (passed := passed[_has_ended(found[passed], ends, places[passed])]).size:
        found[passed] = found[found[passed]]
    return found


def _has_ended(candidates: Places, ends: NDArray[np.int32], places: Places) -> NDArray[np.bool_]:
    return (candidates >= 0) & (ends[candidates] <= places)
