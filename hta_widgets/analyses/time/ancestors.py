"""The nearest call of a kind around each call."""

from __future__ import annotations

from typing import Any

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
    found = np.cumsum(chosen, dtype=np.int64) - 1
    ends = forest.ends[places]
    has_ended = (found >= 0) & (ends[found] <= np.arange(chosen.size)) if places.size else chosen
    passed = np.flatnonzero(has_ended)
    while passed.size:
        found[passed] = above[found[passed]]
        around = found[passed]
        passed = passed[(around >= 0) & (ends[around] <= passed)]
    return np.where(found >= 0, np.append(places, NO_PARENT)[found], NO_PARENT)


def nearest_above(forest: CutForest, chosen: NDArray[np.bool_]) -> Places:
    """The innermost of some calls around each call, which is not the call itself."""
    at_or_above = np.append(nearest_at_or_above(forest, chosen), NO_PARENT)
    return at_or_above[forest.parent]


def at_or_around(parent: NDArray[np.integer[Any]], positions: Places) -> NDArray[np.bool_]:
    """Mask of some nodes of a tree and of all around them.

    Parameters
    ----------
    parent : ndarray of int
        Position of the node around each, -1 for none.
    positions : ndarray of int64
        May be in any order and repeated; -1 stands for none.

    Examples
    --------
    >>> at_or_around(np.array([-1, 0, 1, 0]), np.array([2, 2, -1])).tolist()
    [True, True, True, False]
    """
    chosen = np.zeros(parent.size + 1, dtype=np.bool_)
    chosen[NO_PARENT] = True
    last_at = np.empty(parent.size + 1, dtype=np.int64)
    while (positions := positions[~chosen[positions]]).size:
        chosen[positions] = True
        numbers = np.arange(positions.size)
        last_at[positions] = numbers  # far faster than to sort the distinct ones
        positions = parent[positions[last_at[positions] == numbers]]
    return chosen[:-1]


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
