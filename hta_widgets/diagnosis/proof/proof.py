"""The intervals of the cause of a finding on all of its ranks, and the windows that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.device_steps import DeviceSteps, device_steps
from hta_widgets.analyses.clocks.aligned import on_common_clock
from hta_widgets.analyses.collectives.analysis import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.diagnosis.facts.rank_facts import RankFacts
from hta_widgets.diagnosis.proof.densest import LEAST_SHARE, Edges, Window, windows_of
from hta_widgets.diagnosis.proof.removed import Removed
from hta_widgets.diagnosis.proof.stretches import Stretches
from hta_widgets.diagnosis.proof.what import Seen
from hta_widgets.diagnosis.rank_answers import answers_of_all
from hta_widgets.errors import number_ranges
from hta_widgets.intervals import Intervals, Times
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank

SEEN_AT_ONCE: Final = 1_000
"""A window is at most as many times as long as a usual interval: in a page, that is a pixel."""

MARGIN: Final = 0.1
"""Part of a window that is shown before and after it, so that its edges are seen."""

_NS_PER_MS: Final = 1e6


@dataclass(frozen=True, eq=False)
class Proof:
    """Where a finding is seen.

    Attributes
    ----------
    intervals : DataFrame
        All intervals of its cause on its ranks, in the steps that its price is found in: ``rank``,
        ``start_ns`` and ``end_ns`` (int64, since the first event of all ranks, on the common
        clock). By rank, then by start; kernels that run at once overlap.
    windows : DataFrame
        The densest window first, then the others by what they hold, at most 50: ``start_ns`` and
        ``end_ns`` (as above), ``ranks`` and ``intervals`` (that have a part in it), ``ms`` (of the
        cause in it, all ranks added) and ``percent`` (the same of all intervals).
    why_less : str
        Why the densest window holds less than a fifth; empty if it does not.
    """

    intervals: pd.DataFrame
    windows: pd.DataFrame
    why_less: str = ""

    @property
    def ms(self) -> float:
        """Length of all intervals, those of all ranks added (ms)."""
        lengths = self.intervals["end_ns"] - self.intervals["start_ns"]
        return float(lengths.sum()) / _NS_PER_MS

    def shown_ns(self, place: int) -> tuple[int, int]:
        """Start and end of the window at a place, with a margin on both sides."""
        start, end = (int(self.windows[name].iloc[place]) for name in ("start_ns", "end_ns"))
        margin = int((end - start) * MARGIN)
        return max(start - margin, 0), end + margin

    def words(self, place: int) -> str:
        """How many of the intervals the window at a place shows, where, and how much it holds."""
        window = self.windows.iloc[place]
        parts = f"{window['intervals']:,.0f} of {counted(len(self.intervals), 'interval')}"
        ranks = window["ranks"]
        where = f"on {'rank' if len(ranks) == 1 else 'ranks'} {number_ranges(ranks)}"
        less = f": {self.why_less}" if self.why_less and not place else ""
        return f"{parts} {where} · this window holds {percent(window['percent'])}{less}"


def proofs(job: Job, asked: tuple[Seen, ...]) -> tuple[Proof, ...]:
    """Find out where the findings of a diagnosis are seen: all at once, as that reads each rank."""
    answers = job.remember(answers_of_all, asked[0].limits)
    facts = {rank: each.facts for rank, each in answers.items()}
    recorded = _recorded(job, asked, facts)
    return tuple(
        put_together(_removed(job, each, facts) or recorded[each], _step_ns(facts, each))
        for each in asked
    )


def _recorded(
    job: Job, asked: Sequence[Seen], facts: Mapping[int, RankFacts]
) -> dict[Seen, dict[int, Stretches]]:
    """Intervals of what the ranks recorded."""
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
    """Intervals of what a replay leaves out; of what is recorded, nothing."""
    if not isinstance(seen.what, Removed):
        return {}
    return {
        rank: each.inside(_bounds(job, rank, facts[rank], seen))
        for rank, each in seen.what.of(job, seen.limits, seen.ranks).items()
    }


def _bounds(job: Job, rank: int, facts: RankFacts, seen: Seen) -> Intervals:
    """Time of the steps of a rank in which something is seen, on the common clock."""
    chosen = seen.is_in(facts.steps["step"])
    edges = (facts.steps[name][chosen] for name in ("start_ns", "end_ns"))
    return Intervals.union(*(on_common_clock(job, rank, times) for times in edges))


def stretches_of(
    rank: Rank, split: RankSplit, facts: RankFacts, asked: Sequence[Seen]
) -> tuple[Stretches, ...]:
    """What is seen on one rank of several causes, on its own clock."""
    device = device_steps(rank, split)
    if device is None:
        return tuple(Stretches.nothing() for _ in asked)
    return tuple(
        each.what.on(rank, device, facts).inside(_chosen(device, each))
        for each in asked
        if not isinstance(each.what, Removed)
    )


def _chosen(device: DeviceSteps, seen: Seen) -> Intervals:
    """Time of the steps of a device in which something is seen."""
    chosen = seen.is_in(device.window.steps)
    return Intervals.union(device.edges[:-1][chosen], device.edges[1:][chosen])


def _step_ns(facts: Mapping[int, RankFacts], seen: Seen) -> int:
    """The longest of the steps in which something is seen; without steps, the longest GPU span."""
    lengths = [each.steps["period"][seen.is_in(each.steps["step"])] for each in facts.values()]
    if NO_STEP in seen.steps:
        lengths = [each.sum(keepdims=True) for each in lengths]
    return int(max((each.max(initial=0) for each in lengths), default=0))


def put_together(found: Mapping[int, Stretches], step_ns: int) -> Proof:
    """Find the windows of the intervals of some ranks.

    Parameters
    ----------
    found : mapping of int to Stretches
        Of each rank, on the common clock.
    step_ns : int
        Length of the longest step: no window is longer, unless a single interval is.
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
    windows = windows_of(Edges.of(start_ns, end_ns), longest_ns)
    table = _table(intervals, windows)
    return Proof(intervals, table, _why_less(table, usual_ns, longest_ns))


def _usual_ns(lengths_ns: Times) -> int:
    """The length of which half of the time is in longer ones, and half in shorter ones."""
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
            "ms": held_ns / _NS_PER_MS,
            "percent": 100 * held_ns / max((ends - starts).sum(), 1),
        }
    )


def _why_less(windows: pd.DataFrame, usual_ns: int, longest_ns: int) -> str:
    """Why the first window holds less than `LEAST_SHARE`."""
    if windows.empty or windows["percent"].iloc[0] >= 100 * LEAST_SHARE:
        return ""
    spread = f"intervals of {duration(usual_ns)} are spread over the time"
    return f"{spread}, and no {duration(longest_ns)} hold more"
