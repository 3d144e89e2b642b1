"""The clocks of a job: aligned where possible, once, for all analyses and panels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.alignment import (
    ALIGNED,
    CONTRADICTORY,
    FEWEST,
    RECORDED,
    SHARE_OF_WAIT,
    Alignment,
    Judged,
    Team,
    align,
    coincides,
    components_of,
    judge,
    residuals,
    teams_of,
)
from hta_widgets.analyses.communication.kernels import JobCollectives, Series
from hta_widgets.analyses.communication.matching import MOST_DIFFERENT, Matches, match
from hta_widgets.analyses.communication.recorded import SEND_RECEIVE, rank_collectives
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted, duration, number_ranges, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.clock import origin_of
from hta_widgets.trace.ranks.facts import world_size_among, world_size_of

_MOST_LISTED: Final = 4

WORTH_SAYING_NS: Final = 1_000
"""Clocks that differ by less are as good as one."""

UNLIKE_NS: Final = 1_000_000_000
"""Longest time between the recordings of ranks of one job: clocks that nothing synchronises differ
by seconds, clocks with NTP by milliseconds."""

TOGETHER_NS: Final = 30_000
"""Longest time between the first and the last end of one collective: 8 µs on eight GPUs of a node,
27 µs on two with drifting clocks."""

TIMES_APART: Final = 2
"""How many times as far apart as most ends of known collectives the ends of one may be: clocks that
jumped put ends of all-reduces up to 64 µs apart, and those of all-to-alls up to 86 µs."""

_MOST: Final = 0.9

MOST_CHANCE: Final = 1e-3
"""Highest chance that kernels which are no collective would end together as often."""

_WORDS = ("send", "recv", "coalesced")
"""Parts of the names of sends and receives; kernels that need not wait for all, such as broadcasts,
are left out."""


@dataclass(frozen=True, eq=False)
class JobClocks:
    """Clocks of all ranks of a job, and the collectives that they are aligned by."""

    ranks: tuple[int, ...]
    matches: Matches
    """Collectives of several ranks; with all ranks, also those shown only by their common ends."""
    alignment: Alignment
    """From each rank's own times to the time since the job's aligned origin, the first event of all
    ranks."""
    recorded_ns: Times
    """Offset of each rank as the traces record it; see `Job.offset_ns`."""
    components: Int64Array
    """For each rank, number of the set of ranks that share collectives, from 0."""
    judged: tuple[Judged | None, ...]
    """What is known about each component; None for a rank that shares nothing."""
    error_ns: Float64Array
    """Median distance of each rank's ends from those of the others."""
    collectives: Int64Array
    """Number of collectives by which each rank was aligned."""
    is_laid_over: Mask
    """Whether each rank's recording, which nothing aligns with the others, is far from theirs as
    recorded, and starts with theirs here."""

    def judged_at(self, place: int) -> Judged | None:
        """What is known about the clock of a rank, by its position in `ranks`."""
        return self.judged[int(self.components[place])]

    @property
    def states(self) -> tuple[str, ...]:
        """Which clock is used for each rank."""
        found = (self.judged_at(place) for place in range(len(self.ranks)))
        return tuple(RECORDED if each is None else each.state for each in found)

    @property
    def offsets_ns(self) -> dict[int, int]:
        """Time (ns) to add to each rank's own times to align it with the others."""
        return dict(zip(self.ranks, self.alignment.offset_ns.tolist(), strict=True))

    @property
    def shifts_ns(self) -> Times:
        """How much more each recorded clock is moved than those of most ranks (ns)."""
        moved = self.alignment.offset_ns - self.recorded_ns
        return np.asarray(moved - np.sort(moved)[moved.size // 2])

    @property
    def alignment_notices(self) -> tuple[str, ...]:
        """How times of several ranks were aligned, if that moves any, and what was not aligned."""
        aligned = np.array([state == ALIGNED for state in self.states])
        apart_ns = int(np.ptp(self.shifts_ns[aligned])) if aligned.any() else 0
        if apart_ns < WORTH_SAYING_NS:
            return self.notices
        words = (
            "ranks are aligned by the ends of their collectives (to "
            f"{duration(float(self.error_ns[aligned].max()))}); their recorded clocks are up to "
            f"{duration(apart_ns)} apart"
        )
        return (words, *self.notices)

    @property
    def notices(self) -> tuple[str, ...]:
        """What could not be aligned, and why."""
        notices = [
            notice
            for number, judged in enumerate(self.judged)
            if judged is not None
            if (notice := _state_notice(judged, self._ranks_of(number)))
        ]
        return (*notices, *self._separation_notices(), *self.laid_over_notices)

    @property
    def laid_over_notices(self) -> tuple[str, ...]:
        """Which ranks have recorded clocks that cannot belong to one job."""
        if not self.is_laid_over.any():
            return ()
        laid = number_ranges(self.ranks[place] for place in np.flatnonzero(self.is_laid_over))
        words = (
            f"ranks {laid}: by their recorded clocks they begin when the others have ended, or the "
            "other way round, and no collective aligns them: all are taken to begin together"
        )
        return (words,)

    def _ranks_of(self, component: int) -> str:
        places = np.flatnonzero(self.components == component)
        return number_ranges(self.ranks[place] for place in places)

    def _separation_notices(self) -> list[str]:
        sets = [self._ranks_of(number) for number in range(len(self.judged))]
        if len(sets) < 2:  # noqa: PLR2004
            return []
        if all(each is None for each in self.judged):
            return ["the recorded clocks are used, as no collective names the ranks that take part"]
        listed = "; ".join(sets[:_MOST_LISTED]) + ("; …" if len(sets) > _MOST_LISTED else "")
        words = (
            f"{len(sets)} sets of ranks share no collective with each other ({listed}); "
            "between them, the recorded clocks are used"
        )
        return [words]


@asked_once
def job_clocks(job: Job) -> JobClocks:
    """Clocks of all ranks of a job, computed once."""
    parts = [*job.reduce(rank_collectives, job.ranks).values()]
    matches = match(JobCollectives.of(parts))
    recorded_ns = np.array([*job.offsets_ns(job.ranks).values()], dtype=np.int64)
    teams, components, alignment = _aligned(teams_of(matches), recorded_ns)
    recorded = Alignment.of_offsets(recorded_ns)
    judged = tuple(
        judge(shared, alignment, recorded) if shared else None
        for number in range(int(components.max(initial=-1)) + 1)
        for shared in [[team for team in teams if components[team.places[0]] == number]]
    )
    is_aligned = np.array([each is not None and each.state == ALIGNED for each in judged])
    used = _chosen(alignment, recorded, is_aligned[components])
    error_ns, collectives = _errors(teams, used)
    if len(job.ranks) >= world_size_among(job.reduce(world_size_of, job.ranks)):
        kernels = matches.kernels
        is_sound = np.array([each is None or each.state != CONTRADICTORY for each in judged])
        start_ns = used.aligned(kernels.start_ns, kernels.place)
        end_ns = used.aligned(kernels.end_ns, kernels.place)
        together_ns = together_within_ns(matches, end_ns)
        matches = with_ends_together(matches, start_ns, end_ns, is_sound[components], together_ns)
    origins = [*job.reduce(origin_of, job.ranks).values()]
    has_events = np.array([each.has_events for each in origins])
    length_ns = np.array([each.length_ns for each in origins], dtype=np.int64)
    apart_ns = _apart_ns(used, components, length_ns)
    used = used.moved(-apart_ns)
    return JobClocks(
        ranks=job.ranks,
        matches=matches,
        alignment=_since_first_event(used, has_events),
        recorded_ns=recorded_ns,
        components=components,
        judged=judged,
        error_ns=error_ns,
        collectives=collectives,
        is_laid_over=apart_ns != 0,
    )


def common_offsets_ns(job: Job) -> dict[int, int]:
    """Time (ns) to add to each rank's own times, for times since the first event of all ranks."""
    return job_clocks(job).offsets_ns if len(job.ranks) > 1 else job.offsets_ns(job.ranks)


def on_common_clock(job: Job, rank: int, times_ns: Times) -> Times:
    """Convert times of a rank's own clock to times since the first event of all ranks."""
    if len(job.ranks) == 1:
        return times_ns + job.offset_ns(rank)
    clocks = job_clocks(job)
    return clocks.alignment.aligned(times_ns, np.full(times_ns.size, clocks.ranks.index(rank)))


def recorded_on_common_clock(job: Job, ranks: Collection[int]) -> tuple[int, int]:
    """When the first event of some ranks starts, and when the last one ends."""
    origins = job.reduce(origin_of, ranks)
    edges = [on_common_clock(job, rank, np.array([0, origins[rank].length_ns])) for rank in ranks]
    return int(np.min(edges)), int(np.max(edges))


def alignment_notices(job: Job, ranks: Collection[int]) -> tuple[str, ...]:
    """How times of these ranks were aligned, if they share an axis."""
    return job_clocks(job).alignment_notices if len(ranks) > 1 else ()


def _aligned(teams: Sequence[Team], recorded_ns: Times) -> tuple[list[Team], Int64Array, Alignment]:
    """Align by the teams whose collectives end together, and number the sets of ranks."""
    kept, before = list(teams), -1
    while len(kept) != before:
        before = len(kept)
        numbers = components_of(kept, recorded_ns.size)
        components = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
        alignment = align(kept, recorded_ns, components)
        apart = residuals(kept, alignment)
        kept = [team for team, of in zip(kept, apart, strict=True) if coincides(team, of)]
    return kept, components, alignment


def _chosen(one: Alignment, other: Alignment, is_one: Mask) -> Alignment:
    return Alignment(
        np.where(is_one, one.offset_ns, other.offset_ns),
        np.where(is_one, one.drift, other.drift),
        np.where(is_one, one.pivot_ns, other.pivot_ns),
    )


def _apart_ns(alignment: Alignment, components: Int64Array, length_ns: Times) -> Times:
    """How much later each set of ranks starts than the largest set, if it is far away from it.

    Two nodes whose clocks are 7 s apart would make steps of 0.6 s last 7.6 s::

        ranks 0-7    |---- 1.2 s ----|
        ranks 8-15                         7 s         |---- 1.2 s ----|
    """
    places = np.arange(components.size)
    starts = alignment.aligned(np.zeros_like(length_ns), places)
    ends = alignment.aligned(length_ns, places)
    most = components == np.bincount(components).argmax()
    apart_ns = np.zeros_like(length_ns)
    for number in np.unique(components[~most]):
        own = components == number
        gap_ns = max(starts[own].min() - ends[most].max(), starts[most].min() - ends[own].max())
        if gap_ns > UNLIKE_NS:
            apart_ns[own] = starts[own].min() - starts[most].min()
    return apart_ns


def _since_first_event(alignment: Alignment, has_events: Mask) -> Alignment:
    """Count the common time from the first event of all ranks, which is time 0 of its rank."""
    places = np.flatnonzero(has_events)
    starts = alignment.aligned(np.zeros(places.size, dtype=np.int64), places)
    first_ns = int(starts.min()) if starts.size else 0
    return alignment.moved(np.full_like(alignment.offset_ns, -first_ns))


def _errors(teams: Sequence[Team], alignment: Alignment) -> tuple[Float64Array, Int64Array]:
    """Median distance (ns) of each rank's ends from those of the others, and their number."""
    count = alignment.offset_ns.size
    found: list[list[Float64Array]] = [[] for _ in range(count)]
    for team, apart in zip(teams, residuals(teams, alignment), strict=True):
        for column, place in enumerate(team.places.tolist()):
            found[place].append(np.abs(apart[:, column]))
    joined = [np.concatenate([np.zeros(0), *each]) for each in found]
    errors = [float(np.median(each)) if each.size else np.nan for each in joined]
    return np.array(errors), np.array([each.size for each in joined], dtype=np.int64)


def _state_notice(judged: Judged, ranks: str) -> str:
    """Why the clocks of some ranks are not aligned; empty if they are."""
    if judged.state == RECORDED and judged.aligned.fewest < FEWEST:
        return (
            f"ranks {ranks}: the recorded clocks are used; "
            f"{counted(judged.aligned.fewest, 'collective')} of a rank are too few to align them"
        )
    if judged.state == RECORDED:
        return (
            f"ranks {ranks}: the recorded clocks are used; the ends of their collectives differ by "
            f"{duration(judged.aligned.spread_ns)}, too much compared with the "
            f"{duration(judged.aligned.median_wait_ns)} that ranks wait (the limit is "
            f"{percent(100 * SHARE_OF_WAIT)})"
        )
    if judged.state == CONTRADICTORY:
        return (
            f"ranks {ranks}: the clocks cannot be aligned; in "
            f"{percent(100 * judged.aligned.impossible)} of "
            f"{counted(judged.aligned.collectives, 'collective')}, a rank starts after another has "
            "ended, so waiting and transfer cannot be told apart"
        )
    return ""


class Lanes(NamedTuple):
    """Kernels in the streams of all ranks."""

    lane: Int64Array
    """Number of the stream of each kernel, over all ranks and devices."""
    device: Int64Array
    """Number of its device, over all ranks."""
    start_ns: Times
    end_ns: Times
    """Start and end of each kernel, on the common clock."""


def together_within_ns(matches: Matches, end_ns: Times) -> int:
    """Longest time between the ends of one collective, by those of the collectives that are known.

    `end_ns` has the end of each of ``matches.kernels`` on the common clock.
    """
    ends = end_ns[matches.rows]
    apart_ns = (matches.most(ends) - matches.least(ends))[matches.meets]
    usual_ns = np.quantile(apart_ns, _MOST) if apart_ns.size else 0
    return max(TOGETHER_NS, int(TIMES_APART * usual_ns))


def with_ends_together(
    matches: Matches, start_ns: Times, end_ns: Times, is_usable: Mask, together_ns: int
) -> Matches:
    """Add the collectives of sends and receives whose ranks are not recorded.

    The kernels of one all-to-all, or of a send and its receive, end at the same time, and none ends
    before all have started. Their names do not say to whom they send::

        rank 0   |------ wait ------|--|          |---- wait ----|--|
        rank 1     |----- wait -----|--|                         |--|
        rank 2                      |--|            |--- wait ---|--|
                                       one                          another
        rank 3        |---|                            ends alone: not divided

    If clocks are apart, so are the ends, and nothing is found.

    Parameters
    ----------
    matches : Matches
        Collectives known by fields and names.
    start_ns, end_ns : ndarray of int64
        Start and end of each of ``matches.kernels``, on the common clock.
    is_usable : ndarray of bool
        Whether the clock of each rank contradicts no other.
    together_ns : int
        Longest time (ns) between the first and the last end of one collective.
    """
    kernels = matches.kernels
    names = [any(word in name.lower() for word in _WORDS) for name in kernels.name.values]
    sends = np.array([*names, False])[kernels.name.codes]
    rows = np.flatnonzero((kernels.series < 0) & sends & is_usable[kernels.place])
    lanes = Lanes(
        grouped(kernels.place[rows], kernels.device[rows], kernels.stream[rows]).of_rows,
        grouped(kernels.place[rows], kernels.device[rows]).of_rows,
        start_ns[rows],
        end_ns[rows],
    )
    found = [rows[each] for each in ending_together(lanes, together_ns)]
    return _with(matches, found, end_ns) if found else matches


def ending_together(lanes: Lanes, together_ns: int = TOGETHER_NS) -> list[Int64Array]:
    """Kernels that end together, one from each of at least two devices, ordered by their ends.

    Only kernels of streams that end together more often than by chance, and that do so, with the
    same or other streams, in nearly all of their kernels.
    """
    by_lanes: dict[tuple[int, ...], list[Int64Array]] = {}
    for members in _candidates(lanes, together_ns):
        by_lanes.setdefault(tuple(lanes.lane[members].tolist()), []).append(members)
    chances = _chances(lanes, together_ns)
    kept = {
        key: own
        for key, own in by_lanes.items()
        if chances[[*key]].max() ** len(own) <= MOST_CHANCE
    }
    counts = np.bincount(lanes.lane)
    while True:
        inside = np.zeros_like(counts)
        for key, own in kept.items():
            inside[[*key]] += len(own)
        alone = {*np.flatnonzero(inside < (1 - MOST_DIFFERENT) * counts).tolist()}
        left = {key: own for key, own in kept.items() if not alone.intersection(key)}
        if len(left) == len(kept):
            break
        kept = left
    every = [members for own in kept.values() for members in own]
    return sorted(every, key=lambda members: int(lanes.end_ns[members].max()))


def _candidates(lanes: Lanes, together_ns: int) -> list[Int64Array]:
    """Kernels that may be one collective, by their lanes.

    No other kernel runs from their last start to their first end: it might be a member that ends
    later, as in an all-to-all in which one rank gets more.
    """
    start_ns, end_ns = lanes.start_ns, lanes.end_ns
    in_order = np.sort(end_ns)
    begins = in_order[1:][np.diff(in_order) > together_ns]
    found = grouped(np.searchsorted(begins, end_ns, side="right"))
    first_ns, last_ns = found.reduce(np.minimum, end_ns), found.reduce(np.maximum, start_ns)
    devices = grouped(found.of_rows, lanes.device)
    of_cluster = found.of_rows[devices.first]
    is_once = found.sizes == np.bincount(of_cluster, minlength=found.sizes.size)
    running = np.searchsorted(np.sort(start_ns), first_ns)
    running -= np.searchsorted(in_order, last_ns, side="right")
    is_one = (found.sizes > 1) & is_once & (last_ns < first_ns) & (running == found.sizes)
    is_one &= found.reduce(np.maximum, end_ns) - first_ns <= together_ns
    parts = found.parts
    chosen = (parts[number] for number in np.flatnonzero(is_one).tolist())
    return [members[np.argsort(lanes.lane[members])] for members in chosen]


def _chances(lanes: Lanes, together_ns: int) -> Float64Array:
    """Chance that a kernel of an unrelated stream ends together with one of each stream.

    It does as often as the time around an end fits between two ends.
    """
    by_lane = grouped(lanes.lane)
    span_ns = by_lane.reduce(np.maximum, lanes.end_ns) - by_lane.reduce(np.minimum, lanes.end_ns)
    found = np.zeros(int(lanes.lane.max(initial=-1)) + 1)
    often = by_lane.sizes / np.maximum(span_ns, 1)
    found[lanes.lane[by_lane.first]] = np.minimum(2 * together_ns * often, 1)
    return found


def _with(matches: Matches, found: list[Int64Array], end_ns: Times) -> Matches:
    kernels = matches.kernels
    known = {each: number for number, each in enumerate(kernels.all_series)}
    members = [rows[np.lexsort((kernels.device[rows], kernels.place[rows]))] for rows in found]
    series = np.array([known.setdefault(_series(kernels, rows), len(known)) for rows in members])
    by_series = grouped(series)
    members = [members[number] for number in by_series.order.tolist()]
    sizes = np.array([rows.size for rows in members])
    rows = np.concatenate(members)
    of_kernel = kernels.series.copy()
    of_kernel[rows] = np.repeat(series[by_series.order], sizes)
    ordinals = [np.arange(size, dtype=np.int64) for size in by_series.sizes.tolist()]
    apart_ns = max(int(np.ptp(end_ns[each])) for each in members)
    return Matches(
        kernels=replace(kernels, series=of_kernel, all_series=tuple(known)),
        rows=np.concatenate([matches.rows, rows]),
        edges=np.concatenate([matches.edges, matches.edges[-1] + np.cumsum(sizes)]),
        series=np.concatenate([matches.series, series[by_series.order]]),
        ordinal=np.concatenate([matches.ordinal, *ordinals]),
        notices=(*matches.notices, _notice(kernels, rows, len(members), apart_ns)),
    )


def _series(kernels: JobCollectives, rows: Int64Array) -> Series:
    return Series(SEND_RECEIVE, ranks=tuple(sorted(_ranks(kernels, rows))), size=rows.size)


def _ranks(kernels: JobCollectives, rows: Int64Array) -> set[int]:
    return {kernels.ranks[place] for place in kernels.place[rows].tolist()}


def _notice(kernels: JobCollectives, rows: Int64Array, count: int, apart_ns: int) -> str:
    return (
        f"{counted(rows.size, 'send or receive', 'sends and receives')} whose partners are not "
        f"recorded are taken for {counted(count, 'collective')} of ranks "
        f"{number_ranges(sorted(_ranks(kernels, rows)))}, as they end together, to "
        f"{duration(apart_ns)}, each time"
    )
