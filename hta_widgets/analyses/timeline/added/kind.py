"""What a kind of lane is that can be added to those of a rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hta_widgets.analyses.timeline.curve import Curve, Curves
from hta_widgets.analyses.timeline.tracks import LaneName, Track
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank


class AddedLane(NamedTuple):
    """A lane and what is drawn in it."""

    name: LaneName
    """Of kind ``curve``, ``range`` or ``path``; its key begins with the name of the kind and a
    space."""
    content: Curves | tuple[Track, ...]


@dataclass(frozen=True)
class LaneKind:
    """A kind of lane."""

    name: str
    """One word, for parameters and keys."""
    label: str
    """In the menu."""
    lanes: Callable[[Rank], Sequence[AddedLane]]
    """The lanes of a rank, on its own clock; none where nothing was recorded."""
    why_none: Callable[[Rank], str]
    """Why a rank has none, as a clause, as far as that is known without reading more than is
    loaded; empty if it may have some."""
    nothing: str
    """What to say where it turned out to have none."""


class LanesOfRanks(NamedTuple):
    """The lanes of a kind that is made from a whole job."""

    by_rank: Mapping[int, Sequence[AddedLane]]
    """On the own clock of each rank; of some ranks."""
    nothing: str
    """Why the others have none, as a clause."""


@dataclass(frozen=True)
class JobLaneKind:
    """A kind of lane that no rank has by itself, such as that of a path through all ranks.

    What a layer above the analyses finds out is drawn by giving such a kind to `JobLanes`.
    """

    name: str
    """One word, for parameters and keys."""
    label: str
    """In the menu."""
    lanes: Callable[[Job], LanesOfRanks]
    """The lanes of all ranks, made once for a job."""
    why_none: Callable[[Job], str]
    """Why no rank has any, as a clause, as far as that is known at once; empty if there may be
    some."""


def curve_lane(key: str, label: str, unit: str, curve: Curve) -> AddedLane:
    """A lane with a curve."""
    return curves_lane(key, label, unit, {"": curve})


def curves_lane(key: str, label: str, unit: str, curves: Mapping[str, Curve]) -> AddedLane:
    """A lane with curves on one scale, by what they are; the first is in front."""
    most = tuple(each.most for each in curves.values())
    words = tuple(curves) if len(curves) > 1 else ()
    name = LaneName(key, "curve", label, unit=unit, most=most, words=words)
    return AddedLane(name, Curves(curves.values()))
