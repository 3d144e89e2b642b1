"""Collectives with the same members, as matrices: a row per collective, a column per member."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hta_widgets.analyses.communication.matching import Matches
from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Times

MOST_COLLECTIVES: Final = 2_000
"""Collectives of a team that clocks are aligned by, evenly spaced: more make it no more exact."""


@dataclass(frozen=True, eq=False)
class Team:
    """Collectives of one series with the same members."""

    places: Int64Array
    """Position of each member's rank in the job."""
    start_ns: Times
    end_ns: Times
    """As the start, on the clock of each rank."""

    @property
    def count(self) -> int:
        """Number of collectives."""
        return len(self.end_ns)


def teams_of(matches: Matches) -> list[Team]:
    """Teams of the collectives whose members end together."""
    kernels = matches.kernels
    meeting = np.flatnonzero(matches.meets)
    teams = []
    for collectives in _with_same_members(matches, meeting):
        spaced = np.linspace(0, collectives.size - 1, min(collectives.size, MOST_COLLECTIVES))
        chosen = collectives[spaced.astype(np.int64)]
        members = int(matches.members[chosen[0]])
        rows = matches.rows[matches.edges[chosen][:, np.newaxis] + np.arange(members)]
        teams.append(Team(kernels.place[rows[0]], kernels.start_ns[rows], kernels.end_ns[rows]))
    return teams


def _with_same_members(matches: Matches, collectives: Int64Array) -> Iterator[Int64Array]:
    """Split collectives by series and members; they are in order of their series."""
    series = matches.series[collectives]
    for of_series in np.split(collectives, np.flatnonzero(np.diff(series)) + 1):
        if not of_series.size:
            continue
        by_members: dict[bytes, list[int]] = {}
        for collective in of_series.tolist():
            by_members.setdefault(_members(matches, collective), []).append(collective)
        yield from (np.array(same, dtype=np.int64) for same in by_members.values())


def _members(matches: Matches, collective: int) -> bytes:
    rows = matches.rows[matches.edges[collective] : matches.edges[collective + 1]]
    kernels = matches.kernels
    return kernels.place[rows].tobytes() + kernels.device[rows].tobytes()
