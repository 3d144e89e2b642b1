"""What a cause is seen in: idle time of some kinds, or GPU work, on one rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from hta_widgets.analyses.budget.classes import BUDGET
from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.budget.host_gaps import GAP, GAPS
from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.facts.host_facts import exposed_copies
from hta_widgets.diagnosis.facts.kernel_facts import computing_kernels
from hta_widgets.diagnosis.facts.rank_facts import RankFacts
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.diagnosis.proof.removed import Removed
from hta_widgets.diagnosis.proof.stretches import Stretches
from hta_widgets.intervals import Intervals
from hta_widgets.trace.ranks.rank import Rank


class What(Protocol):
    """Something that lasts, on one rank."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        """When it is, on the rank's own clock, in any of its steps."""
        ...


@dataclass(frozen=True)
class Idle:
    """Idle time of the GPU.

    Attributes
    ----------
    kinds : tuple of str
        Of `GAPS`.
    """

    kinds: tuple[str, ...]

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When it is."""
        gaps = steps.gaps
        chosen = np.isin(gaps.kind, [GAP[name] for name in self.kinds])
        segments = gaps.segments.take(np.flatnonzero(chosen))
        return Stretches.covered(Intervals.union(segments.start_ns, segments.end_ns))


@dataclass(frozen=True)
class LateHost:
    """Idle time of the GPU for which the trace shows a host that is late, whatever it does."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When it is."""
        gaps = steps.gaps
        chosen = (gaps.kind != GAP["gap_depend"]) | gaps.unattributed
        segments = gaps.segments.take(np.flatnonzero(chosen))
        return Stretches.covered(Intervals.union(segments.start_ns, segments.end_ns))


@dataclass(frozen=True)
class Busy:
    """Time of the GPU by what it does, each instant counted once.

    Attributes
    ----------
    parts : tuple of str
        Of `PARTS`.
    """

    parts: tuple[str, ...]

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When it is."""
        covers = steps.busy.covers
        found = Intervals.union([], [])
        for place, name in enumerate(PARTS[: len(covers)]):
            if name in self.parts:
                found |= covers[place] - covers[place - 1] if place else covers[place]
        return Stretches.covered(found)


@dataclass(frozen=True)
class ComputingKernels:
    """All kernels that compute."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When they run."""
        return Stretches.of_work(computing_kernels(rank))


@dataclass(frozen=True)
class Saving:
    """Kernels that could take less time.

    Attributes
    ----------
    columns : tuple of str
        Of `Savings`.
    """

    columns: tuple[str, ...]

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When they run."""
        savings, work = facts.compute.savings, computing_kernels(rank)
        saved = sum(savings.of_rows(column, work.rows) for column in self.columns)
        return Stretches.of_work(work.take(np.flatnonzero(saved)))


@dataclass(frozen=True)
class ExposedCopies:
    """Copies between host and device with no kernel beside them."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When they run alone."""
        chosen, beside = exposed_copies(steps.work)
        copies = Intervals.union(steps.work.start_ns[chosen], steps.work.end_ns[chosen])
        return Stretches.covered(copies - beside)


@dataclass(frozen=True)
class Work:
    """Some of the GPU work.

    Attributes
    ----------
    rows : frozenset of (int, int)
        Rank, and row in its events.
    """

    rows: frozenset[tuple[int, int]]

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When it runs."""
        number = rank.trace.rank
        own = [row for of, row in self.rows if of == number]
        return Stretches.of_work(steps.work.take(np.flatnonzero(np.isin(steps.work.rows, own))))


@dataclass(frozen=True)
class WholeSteps:
    """All of the steps."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """From the first bound of each to its last."""
        return Stretches(steps.edges[:-1], steps.edges[1:])


@dataclass(frozen=True)
class Trials:
    """From the first to the last trial of each series of an autotuner, where no step is marked."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:  # noqa: ARG002
        """When they are."""
        spans = () if facts.host is None else facts.host.trials.spans_ns
        both = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return Stretches(both[:, 0], both[:, 1])


_OF_OTHERS: Final = "waiting"
"""Class of the budget that is not lost by those who cause it: what they do meanwhile counts."""


def what_of_class(name: str) -> What:
    """What time of a class of `BUDGET` is seen in."""
    if name == _OF_OTHERS:
        return ComputingKernels()
    columns = next(each.columns for each in BUDGET if each.name == name)
    kinds = tuple(column.removesuffix("_ns") for column in columns)
    return Idle(kinds) if {*kinds} <= {*GAPS} else Busy(kinds)


class Seen(NamedTuple):
    """What the cause of a finding is seen in.

    Attributes
    ----------
    what : What or Removed
    ranks : tuple of int
    steps : tuple of int
        Numbers of the ProfilerSteps that its price is found in; (-1,) where none are recorded.
    limits : TrialLimits
        With which the facts on its ranks were found.
    """

    what: What | Removed
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    limits: TrialLimits

    def is_in(self, steps: Int64Array) -> Mask:
        """Which of some steps it is looked for in: all where none are recorded."""
        return np.isin(steps, self.steps) | (NO_STEP in self.steps)
