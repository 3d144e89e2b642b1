"""Whether the ranks that share collectives can be aligned, and by which clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.alignment import Alignment, residuals
from hta_widgets.analyses.clocks.teams import Team
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.intervals import Times

ALIGNED, RECORDED, CONTRADICTORY = "aligned", "recorded", "contradictory"

FEWEST: Final = 3
"""Fewer collectives of a rank do not show whether their ends coincide."""

NEGLIGIBLE_NS: Final = 10_000
"""Ends of one collective differ by this much on real links; it is no hindrance to aligning."""

NEGLIGIBLE_SHARE: Final = 0.1
"""But not where collectives themselves take no longer than ten times as much."""

SHARE_OF_WAIT: Final = 0.1
"""Ends that differ by more of the median wait would turn noise into late ranks."""

MOST_IMPOSSIBLE: Final = 0.01
"""Share of collectives that may seem to end before all members have begun."""

EXACT_NS: Final = 2_000
"""How far starts and ends may contradict each other at least."""

APART_NS: Final = 200_000
APART_SHARE: Final = 0.2
"""Ends of one collective differ by less than the time, or than the share of its length, else its
kernels do not belong together, or do not wait for each other."""


class Fit(NamedTuple):
    """How well clocks make the ends of collectives coincide."""

    spread_ns: float
    """Median distance of an end from the median end of its collective."""
    impossible: float
    """Share of the collectives in which a rank starts after another has ended."""
    median_wait_ns: float
    """Median time from the start of a member to that of the last, over all members but the last."""
    median_length_ns: float
    """Median duration of a kernel."""
    collectives: int
    """Number of collectives used."""
    fewest: int
    """Least number of collectives of any rank."""

    @property
    def tolerance_ns(self) -> float:
        """How far times of different ranks may contradict each other."""
        return max(EXACT_NS, 3 * self.spread_ns)

    @property
    def is_sound(self) -> bool:
        """Whether the clocks explain when collectives begin and end."""
        negligible_ns = min(NEGLIGIBLE_NS, NEGLIGIBLE_SHARE * self.median_length_ns)
        return (
            self.fewest >= FEWEST
            and self.impossible <= MOST_IMPOSSIBLE
            and self.spread_ns <= max(negligible_ns, SHARE_OF_WAIT * self.median_wait_ns)
        )


@dataclass(frozen=True)
class Judged:
    """What is known about the clocks of the ranks of one component."""

    state: str
    """``aligned``; ``recorded`` (left as they are); ``contradictory`` (neither explains when
    collectives begin and end)."""
    fit: Fit
    """Of the clocks that are used."""
    aligned: Fit
    """Of the aligned clocks."""


def judge(teams: Sequence[Team], alignment: Alignment, recorded: Alignment) -> Judged:
    """Choose between the aligned and the recorded clocks of one component."""
    aligned = fit_of(teams, alignment)
    if aligned.is_sound:
        return Judged(ALIGNED, aligned, aligned)
    as_recorded = fit_of(teams, recorded, aligned.tolerance_ns)
    if as_recorded.impossible <= MOST_IMPOSSIBLE:
        return Judged(RECORDED, as_recorded, aligned)
    return Judged(CONTRADICTORY, aligned, aligned)


def fit_of(teams: Sequence[Team], alignment: Alignment, tolerance_ns: float | None = None) -> Fit:
    """How well clocks explain what was recorded."""
    spread_ns = _median([np.abs(each).ravel() for each in residuals(teams, alignment)])
    allowed_ns = max(EXACT_NS, 3 * spread_ns) if tolerance_ns is None else tolerance_ns
    impossible, waits = 0, []
    of_rank: Counter[int] = Counter()
    for team in teams:
        places = np.broadcast_to(team.places, team.end_ns.shape)
        starts = alignment.aligned(team.start_ns, places)
        last = starts.max(axis=1, keepdims=True)
        first_end = alignment.aligned(team.end_ns, places).min(axis=1, keepdims=True)
        impossible += int(np.count_nonzero(last - first_end > allowed_ns))
        waits.append((last - starts)[starts < last])
        of_rank.update(dict.fromkeys(team.places.tolist(), team.count))
    collectives = sum(team.count for team in teams)
    return Fit(
        spread_ns=spread_ns,
        impossible=impossible / max(collectives, 1),
        median_wait_ns=_median(waits),
        median_length_ns=_median([(team.end_ns - team.start_ns).ravel() for team in teams]),
        collectives=collectives,
        fewest=min(of_rank.values(), default=0),
    )


def coincides(team: Team, apart: Float64Array) -> bool:
    """Whether most collectives of a team end together, given how far their ends are apart."""
    length_ns = float(np.median(team.end_ns - team.start_ns))
    return float(np.median(np.abs(apart))) <= max(APART_NS, APART_SHARE * length_ns)


def of_component(teams: Sequence[Team], components: Int64Array, number: int) -> list[Team]:
    """Teams of the ranks of one component."""
    return [team for team in teams if components[team.places[0]] == number]


def _median(values: Sequence[Times | Float64Array]) -> float:
    every = np.concatenate([np.zeros(0), *values])
    return float(np.median(every)) if every.size else 0.0
