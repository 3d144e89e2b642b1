"""What a kind of lane is that can be added to those of a rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hta_widgets.analyses.timeline.curve import Curve, Curves
from hta_widgets.analyses.timeline.lane_name import LaneName
from hta_widgets.analyses.timeline.tracks import Track
from hta_widgets.trace.ranks.rank import Rank


class AddedLane(NamedTuple):
    """A lane and what is drawn in it.

    Attributes
    ----------
    name : LaneName
        Of kind ``curve`` or ``range``; its key begins with the name of the `LaneKind` and a space.
    content : Curves or tuple of Track
    """

    name: LaneName
    content: Curves | tuple[Track, ...]


@dataclass(frozen=True)
class LaneKind:
    """A kind of lane.

    Attributes
    ----------
    name : str
        One word, for parameters and keys.
    label : str
        In the menu.
    lanes : callable
        The lanes of a rank, on its own clock; none where nothing was recorded.
    why_none : callable
        Why a rank has none, as a clause, as far as that is known without reading more than is
        loaded; empty if it may have some.
    nothing : str
        What to say where it turned out to have none.
    """

    name: str
    label: str
    lanes: Callable[[Rank], Sequence[AddedLane]]
    why_none: Callable[[Rank], str]
    nothing: str


def curve_lane(key: str, label: str, unit: str, curve: Curve) -> AddedLane:
    """A lane with a curve."""
    return curves_lane(key, label, unit, {"": curve})


def curves_lane(key: str, label: str, unit: str, curves: Mapping[str, Curve]) -> AddedLane:
    """A lane with curves on one scale, by what they are; the first is in front."""
    most = tuple(each.most for each in curves.values())
    words = tuple(curves) if len(curves) > 1 else ()
    name = LaneName(key, "curve", label, unit=unit, most=most, words=words)
    return AddedLane(name, Curves(curves.values()))
