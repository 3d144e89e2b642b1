"""Align the clocks of the ranks by what ends together.

A collective that no member can finish before all have started ends on all of them at the same time.
So the recorded ends differ by as much as the clocks do::

    rank 0, own clock     |-----------|                     end 20
    rank 1, own clock            |--------|                 end 26     6 ahead
    rank 1, aligned   |--------|                            end 20

Medians over many collectives make this immune to a few that were matched wrongly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.communication.matching import Matches
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.intervals import Times

MOST_TURNS: Final = 40
DRIFT_EVERY: Final = 4

SETTLED_NS: Final = 50
"""The search ends when corrections are smaller than this."""

FEWEST_FOR_DRIFT: Final = 8

SHORTEST_FOR_DRIFT_NS: Final = 100_000_000
"""With fewer collectives, or less time between them, drift cannot be told from noise: ends differ
by a few µs, which over 10 ms looks like 100 ppm."""

ALIGNED, RECORDED, CONTRADICTORY = "aligned", "recorded", "contradictory"

FEWEST: Final = 3
"""Fewer collectives of a rank do not show whether their ends coincide."""

NEGLIGIBLE_NS: Final = 10_000
"""Ends of one collective differ by this much on real links, which does not prevent aligning."""

NEGLIGIBLE_SHARE: Final = 0.1
"""Except if the difference is more than this share of the collectives' length."""

SHARE_OF_WAIT: Final = 0.1
"""If ends differ by a larger share of the median wait, noise would turn into late ranks."""

MOST_IMPOSSIBLE: Final = 0.01
"""Share of collectives that may seem to end before all members have started."""

EXACT_NS: Final = 2_000
"""Starts and ends may always contradict each other by this much."""

APART_NS: Final = 200_000

APART_SHARE: Final = 0.2
"""Ends of one collective differ by less than this time, or this share of its length. Otherwise, its
kernels do not belong together, or do not wait for each other."""

MOST_COLLECTIVES: Final = 2_000
"""Most collectives of a team to align clocks by, evenly spaced: more are no more exact."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """Clocks of all ranks on one clock: aligned = t + offset + drift × (t + offset - pivot)."""

    offset_ns: Times
    """Time to add to each rank's own times."""
    drift: Float64Array
    """How much slower each rank's clock runs than the common one, as a ratio."""
    pivot_ns: Times
    """Time on the common clock at which the drift of each rank has no effect."""

    @classmethod
    def of_offsets(cls, offset_ns: Times) -> Alignment:
        """Clocks that differ only by an offset."""
        none = np.zeros(offset_ns.size, dtype=np.int64)
        return cls(offset_ns.copy(), none.astype(np.float64), none)

    def aligned(self, times: Times, places: Int64Array) -> Times:
        """Convert times of ranks (by position in the job) to the common clock, to the ns."""
        moved = times + self.offset_ns[places]
        since = (moved - self.pivot_ns[places]) * self.drift[places]
        return np.asarray(moved + np.rint(since).astype(np.int64))

    def own(self, times: Times, places: Int64Array) -> Times:
        """Convert times on the common clock to those of ranks (by position in the job)."""
        drift = self.drift[places]
        since = (times - self.pivot_ns[places]) * (drift / (1 + drift))
        return np.asarray(times - np.rint(since).astype(np.int64) - self.offset_ns[places])

    def moved(self, by_ns: Times) -> Alignment:
        """Move the clock of each rank by some time."""
        return replace(self, offset_ns=self.offset_ns + by_ns, pivot_ns=self.pivot_ns + by_ns)


def align(teams: Sequence[Team], recorded_ns: Times, components: Int64Array) -> Alignment:
    """Find the offset and drift of each rank's clock by what ends together.

    Parameters
    ----------
    recorded_ns : ndarray of int64
        Offset of each rank as the traces record it. Ranks that share nothing keep it, and so do
        most of the other ranks, which sets the common clock.
    components : ndarray of int64
        Ranks with the same number share collectives with each other, directly or through others.
    """
    search = _Search.begun(teams, recorded_ns, components)
    for turn in range(1, MOST_TURNS + 1):
        largest = search.correct(with_drift=turn % DRIFT_EVERY == 0)
        if largest < SETTLED_NS and turn >= DRIFT_EVERY:
            break
    return search.result(recorded_ns, components)


def residuals(teams: Sequence[Team], alignment: Alignment) -> list[Float64Array]:
    """How much earlier (ns) each member ends than the median of its collective, for each team."""
    found = []
    for team in teams:
        ends = alignment.aligned(team.end_ns, np.broadcast_to(team.places, team.end_ns.shape))
        from_first = (ends - ends[:, :1]).astype(np.float64)
        found.append(np.median(from_first, axis=1, keepdims=True) - from_first)
    return found


def components_of(teams: Sequence[Team], ranks: int) -> Int64Array:
    """Number the sets of ranks that share collectives, directly or through others."""
    number = np.arange(ranks, dtype=np.int64)
    while True:
        before = number.copy()
        for team in teams:
            number[team.places] = number[team.places].min()
        number = number[number]
        if np.array_equal(number, before):
            return number


@dataclass(eq=False)
class _Search:
    """Offsets and drifts, to be improved step by step."""

    teams: Sequence[Team]
    now: Alignment

    @classmethod
    def begun(cls, teams: Sequence[Team], recorded_ns: Times, components: Int64Array) -> _Search:
        """Put each rank on the clock of the rank with which it shares the most."""
        now = Alignment.of_offsets(recorded_ns)
        tree = _tree(teams, recorded_ns.size)
        for place, parent in tree:
            now.offset_ns[place] += _clock_difference(teams, now, place, parent)[0]
        now.pivot_ns[:] = _middles(teams, now, components)
        for place, parent in tree:
            apart_ns, slope = _clock_difference(teams, now, place, parent)
            now.offset_ns[place] += apart_ns
            now.drift[place] = slope
        return cls(teams, now)

    def correct(self, *, with_drift: bool) -> float:
        """Move each rank to the median of what it shares; return the largest move in ns."""
        largest = 0.0
        offset_ns, drift = self.now.offset_ns.copy(), self.now.drift.copy()
        for place, (times, apart) in self._by_rank().items():
            step = float(np.median(apart))
            offset_ns[place] += round(step)
            slope = _slope(times, apart - step) if with_drift else 0.0
            drift[place] += slope
            span = float(times.max() - times.min())
            largest = max(largest, abs(step), abs(slope) * span)
        self.now = replace(self.now, offset_ns=offset_ns, drift=drift)
        return largest

    def result(self, recorded_ns: Times, components: Int64Array) -> Alignment:
        """Let most ranks of each component keep their recorded clock."""
        back_ns, drift = np.zeros_like(recorded_ns), self.now.drift.copy()
        for number in np.unique(components):
            members = np.flatnonzero(components == number)
            moved = np.sort(self.now.offset_ns[members] - recorded_ns[members])
            back_ns[members] = -moved[moved.size // 2]
            drift[members] -= np.median(drift[members])
        return replace(self.now, drift=drift).moved(back_ns)

    def _by_rank(self) -> dict[int, tuple[Float64Array, Float64Array]]:
        """For each rank: times since the pivot, and how much earlier it ends than the others."""
        times: dict[int, list[Float64Array]] = {}
        apart: dict[int, list[Float64Array]] = {}
        for team, of_team in zip(self.teams, residuals(self.teams, self.now), strict=True):
            since = (team.end_ns + self.now.offset_ns[team.places]) - self.now.pivot_ns[team.places]
            for column, place in enumerate(team.places.tolist()):
                times.setdefault(place, []).append(since[:, column].astype(np.float64))
                apart.setdefault(place, []).append(of_team[:, column])
        return {
            place: (np.concatenate(times[place]), np.concatenate(apart[place])) for place in times
        }


def _tree(teams: Sequence[Team], ranks: int) -> list[tuple[int, int]]:
    """Each rank but the first of its component, with the earlier rank that it shares the most with.

    Starts from the rank with the most collectives (Prim's algorithm).
    """
    shared = np.zeros((ranks, ranks), dtype=np.int64)
    for team in teams:
        places = np.unique(team.places)
        shared[np.ix_(places, places)] += team.count
    np.fill_diagonal(shared, 0)
    total = shared.sum(axis=1)
    is_placed = np.zeros(ranks, dtype=bool)
    most, parent = np.zeros(ranks, dtype=np.int64), np.zeros(ranks, dtype=np.int64)
    edges = []
    for _ in range(ranks):
        waiting = np.where(is_placed, -1, most)
        place = int(np.argmax(waiting))
        if waiting[place] > 0:
            edges.append((place, int(parent[place])))
        else:
            place = int(np.argmax(np.where(is_placed, -1, total)))
        is_placed[place] = True
        closer = shared[place] > most
        most[closer], parent[closer] = shared[place][closer], place
    return edges


def _middles(teams: Sequence[Team], now: Alignment, components: Int64Array) -> Times:
    """Median end of the collectives of each rank's component; 0 without any."""
    middle_ns = np.zeros_like(components)
    for number in np.unique(components):
        ends = [
            (team.end_ns + now.offset_ns[team.places]).ravel()
            for team in teams
            if components[team.places[0]] == number
        ]
        if ends:
            every = np.sort(np.concatenate(ends))
            middle_ns[components == number] = every[every.size // 2]
    return middle_ns


def _clock_difference(
    teams: Sequence[Team], now: Alignment, place: int, parent: int
) -> tuple[int, float]:
    """How far a rank's clock is behind another's (ns), and how much slower it runs."""
    times, apart = [], []
    for team in teams:
        own, other = np.flatnonzero(team.places == place), np.flatnonzero(team.places == parent)
        if own.size and other.size:
            ends = now.aligned(team.end_ns[:, own[0]], np.array(place))
            ends_there = now.aligned(team.end_ns[:, other[0]], np.array(parent))
            times.append(ends_there - now.pivot_ns[parent])
            apart.append(ends_there - ends)
    every = np.concatenate(apart)
    offset_ns = int(np.sort(every)[every.size // 2])
    slope = _slope(np.concatenate(times).astype(np.float64), (every - offset_ns).astype(np.float64))
    return offset_ns, slope


def _slope(times: Float64Array, values: Float64Array) -> float:
    """Change of values over time, by the medians of the earlier and the later half."""
    if times.size < FEWEST_FOR_DRIFT or times.max() - times.min() < SHORTEST_FOR_DRIFT_NS:
        return 0.0
    order = np.argsort(times, kind="stable")
    earlier, later = np.array_split(order, 2)
    run = np.median(times[later]) - np.median(times[earlier])
    rise = np.median(values[later]) - np.median(values[earlier])
    return float(rise / run) if run > 0 else 0.0


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
    """Smallest number of collectives of any rank."""

    @property
    def tolerance_ns(self) -> float:
        """How far times of different ranks may contradict each other."""
        return max(EXACT_NS, 3 * self.spread_ns)

    @property
    def is_sound(self) -> bool:
        """Whether the clocks explain when collectives start and end."""
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
    collectives start and end)."""
    fit: Fit
    """How well the clocks fit that are used."""
    aligned: Fit
    """How well the aligned clocks fit."""


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


def _median(values: Sequence[Times | Float64Array]) -> float:
    every = np.concatenate([np.zeros(0), *values])
    return float(np.median(every)) if every.size else 0.0


@dataclass(frozen=True, eq=False)
class Team:
    """Collectives of one series with the same members."""

    places: Int64Array
    """Position of each member's rank in the job."""
    start_ns: Times
    end_ns: Times
    """Start and end by collective and member, on the clock of each rank."""

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
