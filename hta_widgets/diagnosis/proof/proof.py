"""The intervals of a finding's cause on all its ranks, and the windows that show them.

The first window is the densest one in the part that the finding's sentence names. The other windows
hold what it leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.device_steps import DeviceSteps, device_steps
from hta_widgets.analyses.clocks.aligned import on_common_clock
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.proof.what import Removed, Seen, Stretches
from hta_widgets.diagnosis.rank_answers import RankFacts, answers_of_all
from hta_widgets.intervals import Intervals, Times
from hta_widgets.quantities import NS_PER_MS, counted, duration, named_numbers, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank

LEAST_SHARE: Final = 0.2
"""Share of the whole that the densest window should hold: with less, it is only an example."""

NEARLY_AS_DENSE: Final = 0.9
"""Share of the densest window's rate from which a window that holds more is shown instead."""

MUCH_LONGER: Final = 0.04
"""If an interval is longer than those in the first window by this share of the whole, the words say
where it is: a sentence names a stall of 27 ms, and the window shows up to 17 ms."""

_NONE: Final = np.zeros(0, dtype=np.int64)

MOST_WINDOWS: Final = 12
"""Most windows to step through; further ones hold next to nothing each."""


class Edges(NamedTuple):
    """Intervals that may overlap, as their starts and their ends.

    It does not matter here which start belongs to which end: the time of all intervals before a
    moment is the time since all starts before it, minus the time since all ends before it.
    """

    starts: Times
    ends: Times
    """Both ascending."""

    @classmethod
    def of(cls, starts: Times, ends: Times) -> Edges:
        """Edges of intervals in any order."""
        return cls(np.sort(starts), np.sort(ends))

    @property
    def time_ns(self) -> int:
        """Sum of all intervals."""
        return int((self.ends - self.starts).sum())

    def until(self) -> tuple[Times, Times, Int64Array]:
        """Time of all intervals (ns) before each start and each end; number of ends by each start.

        Intervals that overlap each count in full.
        """
        starts, ends = (each - self.starts[:1] for each in self)
        begun = np.searchsorted(starts, ends, side="right")
        over = np.searchsorted(ends, starts, side="right")
        of_starts, of_ends = (np.concatenate(([0], np.cumsum(each))) for each in (starts, ends))
        starts *= np.arange(over.size) - over
        starts += of_ends[over] - of_starts[:-1]
        ends *= begun - np.arange(begun.size)
        ends += of_ends[:-1] - of_starts[begun]
        return starts, ends, over

    def without(self, start: int, end: int) -> Edges:
        """What is outside a window; intervals that reach into it are cut."""
        starts, ends = self.starts, self.ends
        first, last = (np.searchsorted(starts, at, side="left") for at in (start, end))
        over, past = (np.searchsorted(ends, at, side="right") for at in (start, end))
        return Edges(
            np.concatenate((starts[:first], np.full(last - past, end), starts[last:])),
            np.concatenate((ends[:over], np.full(first - over, start), ends[past:])),
        )


class Window(NamedTuple):
    """A window, from the start of an interval to the end of one."""

    start_ns: int
    end_ns: int
    held_ns: int
    """Time of the intervals in it."""


def windows_of(edges: Edges, longest_ns: int, named: Edges) -> list[Window]:
    """Divide intervals among windows: first the densest, then always the fullest of what is left.

    The first window has the most of the intervals per time, among those that hold `LEAST_SHARE`; or
    it is one of up to twice that length that is `NEARLY_AS_DENSE` and holds more. If that is longer
    than ``longest_ns``, it is the fullest window that is not. The others are disjoint and no longer
    than the first; from the second on, none holds more than the one before it.

    No window is longer than ``longest_ns``, unless a single interval is.

    The first window is sought in the named parts, unless these are next to nothing; half of them is
    enough if that is less than `LEAST_SHARE`. In one job, 40 % of the time was before launches of
    the backward pass, as its sentence said, but the densest window had none of these.
    """
    if not edges.starts.size:
        return []
    least_ns = LEAST_SHARE * edges.time_ns
    among = named if 2 * named.time_ns >= least_ns else edges
    first = densest(among, min(least_ns, among.time_ns / 2))
    if first.end_ns - first.start_ns > longest_ns:
        first = fullest(among, longest_ns)
    else:
        twice_ns = 2 * (first.end_ns - first.start_ns)
        first = widened(among, first, min(twice_ns, longest_ns))
    first = first._replace(held_ns=edges.time_ns - edges.without(*first[:2]).time_ns)
    others: list[Window] = []
    length_ns = first.end_ns - first.start_ns
    while 1 + len(others) < MOST_WINDOWS:
        found = [first, *others]
        edges = edges.without(found[-1].start_ns, found[-1].end_ns)
        if not edges.starts.size:
            break
        others.append(fullest(edges, length_ns, np.sort([each.start_ns for each in found])))
    return [first, *sorted(others, key=lambda each: -each.held_ns)]


def densest(edges: Edges, least_ns: float) -> Window:
    """The window with the most of the intervals per time, among those that hold ``least_ns``.

    For each rate, find the window that holds most beyond it. Its rate is higher, unless there is no
    better window (Dinkelbach).
    """
    starts, ends = edges.starts, edges.ends
    before, until, _ = edges.until()
    count = np.searchsorted(before, until - least_ns, side="right")
    chosen = np.flatnonzero(count)
    start_ns, end_ns = (each - starts[0] for each in (starts, ends[chosen]))
    last, until = count[chosen] - 1, until[chosen]
    window, rate = Window(int(starts[0]), int(ends[-1]), int(until[-1])), -1.0
    while (found := window.held_ns / (window.end_ns - window.start_ns)) > rate:
        best, rate = window, found
        least_at = _place_of_least(before - rate * start_ns)[last]
        beyond = until - rate * end_ns - (before - rate * start_ns)[least_at]
        place = int(np.argmax(beyond))
        at = int(least_at[place])
        window = Window(int(starts[at]), int(ends[chosen[place]]), int(until[place] - before[at]))
    return best


def widened(edges: Edges, dense: Window, longest_ns: int) -> Window:
    """The window that holds most, among those that are nearly as dense as one and not too long.

    The densest window of a server had 38 % of the cause; with the two gaps before it, it has 55 %.
    """
    starts, ends = edges.starts, edges.ends
    before, until, _ = edges.until()
    rate = NEARLY_AS_DENSE * dense.held_ns / (dense.end_ns - dense.start_ns)
    least = np.minimum.accumulate(before - rate * (starts - starts[0]))
    # for each end, the first start from which the rate is reached
    at = np.searchsorted(-least, rate * (ends - starts[0]) - until, side="left")
    chosen = np.flatnonzero(at < starts.size)
    at = at[chosen]
    length_ns, held_ns = ends[chosen] - starts[at], until[chosen] - before[at]
    held_ns[(length_ns <= 0) | (length_ns > longest_ns)] = 0
    place = int(np.argmax(held_ns)) if held_ns.size else 0
    if not held_ns.size or held_ns[place] <= dense.held_ns:
        return dense
    return Window(int(starts[at[place]]), int(ends[chosen[place]]), int(held_ns[place]))


def _place_of_least(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Int64Array:
    """Position of the least value up to each value."""
    is_new = values <= np.minimum.accumulate(values)
    return np.maximum.accumulate(np.where(is_new, np.arange(values.size), 0))


def fullest(edges: Edges, longest_ns: int, taken: Times = _NONE) -> Window:
    """The window with the most of the intervals, among those no longer than ``longest_ns``.

    A window holds at least one whole interval, however long; among equal windows, it is the first.

    It contains none of the earlier windows, whose starts are ``taken`` (ascending) and whose
    intervals are no longer among the edges.
    """
    starts, ends = edges.starts, edges.ends
    barrier = np.append(taken, ends[-1])[np.searchsorted(taken, starts)]
    at = np.searchsorted(ends, np.minimum(starts + longest_ns, barrier), side="right") - 1
    before, until, own = edges.until()  # `own` is the first end after each start
    last = np.maximum(at, own)
    held_ns = until[last] - before
    place = int(np.argmax(held_ns))
    return Window(int(starts[place]), int(ends[last[place]]), int(held_ns[place]))


SEEN_AT_ONCE: Final = 1_000
"""A window is at most this many times as long as a usual interval, which is then about a pixel."""

MARGIN: Final = 0.1
"""Share of a window's length to show before and after it, so that its edges are visible."""

LEAST_LEFT: Final = 0.0005
"""Share of the whole that windows must leave for a further one: with less, they hold 100 %. The
second window of an all-gather showed 6 of 1,006 ms, all of which the first one's margin shows."""


@dataclass(frozen=True, eq=False)
class Proof:
    """Where to see a finding."""

    intervals: pd.DataFrame
    """All intervals of its cause on its ranks, in the steps that its price is found in: ``rank``,
    ``start_ns`` and ``end_ns`` (int64, since the first event of all ranks, on the common clock).
    Sorted by rank, then by start; kernels that run at the same time overlap."""
    windows: pd.DataFrame
    """The densest window first, then the others by what they hold, at most 12: ``start_ns`` and
    ``end_ns`` (as above), ``ranks`` and number of ``intervals`` (that reach into it), ``ms`` (of
    the cause in it, summed over ranks) and ``percent`` (of all intervals)."""
    bounds_ns: tuple[int, int]
    """When the first analysed step of these ranks starts, and when the last one ends: a window
    shows nothing beyond, not even as its margin."""
    why_less: str = ""
    """Why the densest window holds less than a fifth; empty if it does not."""

    @property
    def ms(self) -> float:
        """Length of all intervals, summed over ranks (ms)."""
        lengths = self.intervals["end_ns"] - self.intervals["start_ns"]
        return float(lengths.sum()) / NS_PER_MS

    def shown_ns(self, place: int) -> tuple[int, int]:
        """Start and end of the window at a position, with a margin on both sides."""
        start, end = (int(self.windows[name].iloc[place]) for name in ("start_ns", "end_ns"))
        return with_margin(start, end, self.bounds_ns)

    def words(self, place: int) -> str:
        """How many intervals the window at a position shows, where, and how much it holds.

        Its margin counts too: of 204 intervals, the words said 51, and 56 were shown.
        """
        start, end = self.shown_ns(place)
        starts, ends = (self.intervals[name].to_numpy() for name in ("start_ns", "end_ns"))
        held_ns = np.minimum(ends, end) - np.maximum(starts, start)
        inside = held_ns > 0
        share = 100 * held_ns[inside].sum() / max((ends - starts).sum(), 1)
        ranks = np.unique(self.intervals["rank"].to_numpy()[inside]).tolist()
        parts = f"{np.count_nonzero(inside):,} of {counted(len(self.intervals), 'interval')}"
        more = self._first_words() if not place else ""
        where = f"on {named_numbers('rank', ranks)}"
        return f"{parts} {where} · this window holds {percent(share)}{more}"

    def _first_words(self) -> str:
        """Why the first window holds little, or where an interval is that is much longer."""
        if self.why_less:
            return f": {self.why_less}"
        starts, ends = (self.intervals[name].to_numpy() for name in ("start_ns", "end_ns"))
        lengths = ends - starts
        longest = int(lengths.argmax())
        first, last = (self.windows[name].to_numpy() for name in ("start_ns", "end_ns"))
        holding = np.flatnonzero((first <= starts[longest]) & (ends[longest] <= last))
        shown = lengths[(starts >= first[0]) & (ends <= last[0])].max(initial=0)
        if lengths[longest] - shown < MUCH_LONGER * lengths.sum() or not holding.size:
            return ""
        return f"; the longest interval is in window {holding[0] + 1}"


def with_margin(start_ns: int, end_ns: int, bounds_ns: tuple[int, int]) -> tuple[int, int]:
    """A window with a margin on both sides, as far as that is analysed.

    Next to a verdict on 7.64 ms, "of 7.69 ms idle" counted what came before the first GPU work.
    """
    first, last = bounds_ns
    margin = int((end_ns - start_ns) * MARGIN)
    before, after = max(start_ns - margin, first), min(end_ns + margin, last)
    return min(before, start_ns), max(after, end_ns)


def proofs(job: Job, asked: tuple[Seen, ...]) -> tuple[Proof, ...]:
    """Find where to see the findings of a diagnosis, all at once, as this reads each rank."""
    facts = job.remember(answers_of_all, asked[0].limits).facts
    recorded = _recorded(job, asked, facts)
    found = {each: _removed(job, each, facts) or recorded[each] for each in asked}
    return tuple(
        put_together(
            found[each],
            _step_ns(facts, each),
            _analysed_ns(job, facts, each.ranks),
            _named(job, each, facts, found[each]),
        )
        for each in asked
    )


def _named(
    job: Job, seen: Seen, facts: Mapping[int, RankFacts], found: Mapping[int, Stretches]
) -> list[Stretches]:
    """The part of what was found that the finding's sentence names."""
    named = []
    for rank, each in found.items() if seen.region else ():
        host = facts[rank].host
        region = host.launching.region if host else None
        if region and region.name == seen.region:
            edges = (region.idle.starts, region.idle.ends)
            idle = Intervals(*(on_common_clock(job, rank, times) for times in edges))
            named.append(Stretches.covered(Intervals.union(*each) & idle))
    return named


def _recorded(
    job: Job, asked: Sequence[Seen], facts: Mapping[int, RankFacts]
) -> dict[Seen, dict[int, Stretches]]:
    """Intervals of causes that show in what the ranks recorded."""
    splits = rank_splits(job)
    wanted = {
        rank: tuple(
            each for each in asked if rank in each.ranks and not isinstance(each.what, Removed)
        )
        for rank in job.ranks
    }
    arguments = {rank: (splits[rank], facts[rank], each) for rank, each in wanted.items() if each}
    found: dict[Seen, dict[int, Stretches]] = {each: {} for each in asked}
    for rank, stretches in job.reduce_each(stretches_of, arguments).items():
        for each, own in zip(wanted[rank], stretches, strict=True):
            found[each][rank] = Stretches(*(on_common_clock(job, rank, times) for times in own))
    return found


def _removed(job: Job, seen: Seen, facts: Mapping[int, RankFacts]) -> dict[int, Stretches]:
    """Intervals of a cause that a replay removes; empty for one that shows in the recording."""
    if not isinstance(seen.what, Removed):
        return {}
    return {
        rank: each.inside(_bounds(job, rank, facts[rank], seen))
        for rank, each in seen.what.of(job, seen.limits, seen.ranks).items()
    }


def _bounds(job: Job, rank: int, facts: RankFacts, seen: Seen) -> Intervals:
    """Time of the steps of a rank in which to look for something, on the common clock."""
    chosen = seen.is_in(facts.steps["step"])
    edges = (facts.steps[name][chosen] for name in ("start_ns", "end_ns"))
    return Intervals.union(*(on_common_clock(job, rank, times) for times in edges))


def stretches_of(
    rank: Rank, split: RankSplit, facts: RankFacts, asked: Sequence[Seen]
) -> tuple[Stretches, ...]:
    """What is seen of several causes on one rank, on its own clock."""
    device = device_steps(rank, split)
    if device is None:
        return tuple(Stretches.nothing() for _ in asked)
    return tuple(
        each.what.on(rank, device, facts).inside(_chosen(device, each))
        for each in asked
        if not isinstance(each.what, Removed)
    )


def _analysed_ns(
    job: Job, facts: Mapping[int, RankFacts], ranks: Collection[int]
) -> tuple[int, int]:
    """When the first analysed step of some ranks starts, and when the last one ends."""
    starts, ends = (
        np.concatenate([on_common_clock(job, rank, facts[rank].steps[name]) for rank in ranks])
        for name in ("start_ns", "end_ns")
    )
    return int(starts.min()), int(ends.max())


def _chosen(device: DeviceSteps, seen: Seen) -> Intervals:
    """Time of the steps of a device in which to look for something."""
    chosen = seen.is_in(device.window.steps)
    return Intervals.union(device.edges[:-1][chosen], device.edges[1:][chosen])


def _step_ns(facts: Mapping[int, RankFacts], seen: Seen) -> int:
    """Longest step in which to look for something; without steps, the longest GPU span."""
    lengths = [each.steps["period"][seen.is_in(each.steps["step"])] for each in facts.values()]
    if NO_STEP in seen.steps:
        lengths = [each.sum(keepdims=True) for each in lengths]
    return int(max((each.max(initial=0) for each in lengths), default=0))


def put_together(
    found: Mapping[int, Stretches],
    step_ns: int,
    bounds_ns: tuple[int, int],
    named: Sequence[Stretches] = (),
) -> Proof:
    """Find the windows of the intervals of some ranks, on the common clock.

    No window is longer than the longest step, unless a single interval is. The first one shows what
    is named, if anything is; the last one shows the last of what counts.
    """
    sizes = [each.start_ns.size for each in found.values()]
    nothing = np.zeros(0, dtype=np.int64)
    start_ns, end_ns = (
        np.concatenate([nothing, *(each[side] for each in found.values())]) for side in (0, 1)
    )
    rank = np.repeat(np.array([*found], dtype=np.int64), sizes)
    intervals = pd.DataFrame({"rank": rank, "start_ns": start_ns, "end_ns": end_ns})
    usual_ns = _usual_ns(end_ns - start_ns)
    longest_ns = min(step_ns, SEEN_AT_ONCE * usual_ns)
    parts = (np.concatenate([_NONE, *(each[side] for each in named)]) for side in (0, 1))
    edges = Edges.of(start_ns, end_ns)
    windows = _that_count(windows_of(edges, longest_ns, Edges.of(*parts)), edges, bounds_ns)
    table = _table(intervals, windows)
    return Proof(intervals, table, bounds_ns, _why_less(table, usual_ns))


def _that_count(windows: list[Window], edges: Edges, bounds_ns: tuple[int, int]) -> list[Window]:
    """Windows up to the one that shows the last of what counts."""
    least_ns = LEAST_LEFT * edges.time_ns
    for place, each in enumerate(windows):
        if edges.time_ns < least_ns:
            return windows[:place]
        edges = edges.without(*with_margin(*each[:2], bounds_ns))
    return windows


def _usual_ns(lengths_ns: Times) -> int:
    """The length for which half of the time is in longer intervals, and half in shorter ones."""
    ascending = np.sort(lengths_ns)
    sums = np.cumsum(ascending)
    return int(ascending[np.searchsorted(sums, sums[-1] / 2)]) if sums.size else 0


def _table(intervals: pd.DataFrame, windows: list[Window]) -> pd.DataFrame:
    starts, ends, ranks = (intervals[name].to_numpy() for name in ("start_ns", "end_ns", "rank"))
    inside = [(starts < each.end_ns) & (ends > each.start_ns) for each in windows]
    held_ns = np.array([each.held_ns for each in windows], dtype=np.float64)
    return pd.DataFrame(
        {
            "start_ns": np.array([each.start_ns for each in windows], dtype=np.int64),
            "end_ns": np.array([each.end_ns for each in windows], dtype=np.int64),
            "ranks": [tuple(np.unique(ranks[each]).tolist()) for each in inside],
            "intervals": np.array([np.count_nonzero(each) for each in inside], dtype=np.int64),
            "ms": held_ns / NS_PER_MS,
            "percent": 100 * held_ns / max((ends - starts).sum(), 1),
        }
    )


def _why_less(windows: pd.DataFrame, usual_ns: int) -> str:
    """Why the first window holds less than `LEAST_SHARE`."""
    if windows.empty or windows["percent"].iloc[0] >= 100 * LEAST_SHARE:
        return ""
    return f"they are short ({duration(usual_ns)}) and spread over the time"
