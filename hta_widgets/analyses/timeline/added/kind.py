"""What a kind of lane is that can be added to those of a rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hta_widgets.analyses.timeline.curve import Curve, Curves
from hta_widgets.analyses.timeline.lane_name import LaneName
from hta_widgets.analyses.timeline.tracks import Track
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank


class AddedLane(NamedTuple):
    """A lane and what is drawn in it.

    Attributes
    ----------
    name : LaneName
        Of kind ``curve``, ``range`` or ``path``; its key begins with the name of the kind and a
        space.
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


class LanesOfRanks(NamedTuple):
    """The lanes of a kind that is made from a whole job.

    Attributes
    ----------
    by_rank : mapping of int to sequence of AddedLane
        On the own clock of each rank; of some ranks.
    nothing : str
        Why the others have none, as a clause.
    """

    by_rank: Mapping[int, Sequence[AddedLane]]
    nothing: str


@dataclass(frozen=True)
class JobLaneKind:
    """A kind of lane that no rank has by itself, such as that of a path through all ranks.

    What a layer above the analyses finds out is drawn by giving such a kind to `JobLanes`.

    Attributes
    ----------
    name : str
        One word, for parameters and keys.
    label : str
        In the menu.
    lanes : callable
        The lanes of all ranks, made once for a job.
    why_none : callable
        Why no rank has any, as a clause, as far as that is known at once; empty if there may be
        some.
    """

    name: str
    label: str
    lanes: Callable[[Job], LanesOfRanks]
    why_none: Callable[[Job], str]


def curve_lane(key: str, label: str, unit: str, curve: Curve) -> AddedLane:
    """A lane with a curve."""
    return curves_lane(key, label, unit, {"": curve})


def curves_lane(key: str, label: str, unit: str, curves: Mapping[str, Curve]) -> AddedLane:
    """A lane with curves on one scale, by what they are; the first is in front."""
    most = tuple(each.most for each in curves.values())
    words = tuple(curves) if len(curves) > 1 else ()
    name = LaneName(key, "curve", label, unit=unit, most=most, words=words)
    return AddedLane(name, Curves(curves.values()))
