"""What a rule is given: the steps of all ranks, what was found before it, and the limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.facts.rank_facts import RankFacts
from hta_widgets.diagnosis.finding import Confidence, Evidence, Finding, Link, Words
from hta_widgets.diagnosis.job.hardware import Hardware, hardware
from hta_widgets.diagnosis.job.steps import Matrix, Steps
from hta_widgets.diagnosis.job.traffic import Traffic, traffic_of
from hta_widgets.diagnosis.job.waiting import CollectiveWaits
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job

NS_PER_MS: Final = 1e6

HALF_OF_LARGEST: Final = 0.5
"""A rank is to blame if its share of the cause is at least this part of the largest share."""

MOST_RANKS: Final = 0.75
"""All ranks are to blame if this part of them is."""


@dataclass(frozen=True, eq=False)
class Context:
    """What rules work on.

    Attributes
    ----------
    job : Job
    steps : Steps
        Those that count: without the steps of autotuning and warm-up, once these are known.
    all_steps : Steps
        With them.
    facts : mapping of int to RankFacts
        By rank.
    limits : Limits
    collective_waits : CollectiveWaits
        Which rank waited for which, to tell what propagates to other ranks.
    found : dict of Cause to Finding
        What the rules before this one found.
    removed : dict of Cause to ndarray
        Time (ns, ranks × steps) that the found causes take of ``steps``.
    """

    job: Job
    steps: Steps
    all_steps: Steps
    facts: Mapping[int, RankFacts]
    limits: Limits
    collective_waits: CollectiveWaits
    found: dict[Cause, Finding] = field(default_factory=dict)
    removed: dict[Cause, Matrix] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks with GPU work, in the order of the rows of all matrices."""
        return self.steps.ranks

    def without_steps(self, left_out: Collection[int]) -> Context:
        """The same without some steps."""
        return replace(self, steps=self.steps.without(left_out))

    def without_trials(self) -> Context:
        """The same without the trials of an autotuner that no marks of steps set apart."""
        columns = {rank: self.facts[rank].beside_trials for rank in self.ranks}
        if self.steps.are_recorded or not any(columns.values()):
            return self
        known = {rank: each or self.facts[rank].steps for rank, each in columns.items()}
        return replace(self, steps=Steps.of(known))

    @cached_property
    def traffic(self) -> Traffic:
        """Collectives, pipelines and process groups of the job."""
        communication = {rank: facts.communication for rank, facts in self.facts.items()}
        return traffic_of(self.job, self.steps, communication)

    @cached_property
    def hardware(self) -> Hardware:
        """What the kernels say about the GPUs."""
        return hardware(self.job, self.steps, self.traffic.copies, self.limits)

    @cached_property
    def work(self) -> Matrix:
        """Computing time (ns) of each rank and step on a GPU like the others."""
        found = self.hardware
        return self.steps["compute"] - found.excess_of((*found.slow, *found.throttled))

    def computing(self, column: str) -> Matrix:
        """Time (ns) in a kind of computing kernels, a column of `ComputeFacts`."""
        numbers = self.steps.numbers
        rows = []
        for rank in self.ranks:
            facts = self.facts[rank].compute
            values = dict(zip(facts.step.tolist(), getattr(facts, column).tolist(), strict=True))
            whole = [sum(values.values())]
            rows.append([values[each] for each in numbers] if self.steps.are_recorded else whole)
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(numbers))

    def is_worth_it(self, cause: Cause, recoverable_ns: float) -> bool:
        """Whether a cause costs more than its limit."""
        least_percent: float = getattr(self.limits, cause.limit)
        least_ns = least_percent / 100 * self.steps.median_period_ns
        return recoverable_ns >= max(least_ns, self.limits.least_ms * NS_PER_MS)

    def blamed(self, share: Float64Array) -> tuple[int, ...]:
        """Ranks whose share is at least half of the largest; all if most are.

        Parameters
        ----------
        share : ndarray of float64
            Of each rank in the cause.
        """
        guilty = share >= HALF_OF_LARGEST * share.max(initial=0.0)
        guilty &= share > 0
        if np.count_nonzero(guilty) >= MOST_RANKS * len(self.ranks):
            return self.ranks
        return tuple(rank for rank, is_guilty in zip(self.ranks, guilty, strict=True) if is_guilty)

    def gain_of_excess(self, excess: Matrix) -> float:
        """By how much (ns) the mean step is shorter if some ranks compute less.

        Stages of a pipeline wait for each other one by one, so that the largest excess counts.
        """
        gain_ns = self.steps.gain_ns(excess)
        if self.traffic.pipelines and excess.size:
            return max(gain_ns, float(excess.max(axis=0).mean()))
        return gain_ns

    def gain_of_host_cause(
        self, removed: Matrix, names: Sequence[str], share: Matrix | None = None
    ) -> float:
        """By how much (ns) the mean step is shorter without a host cause, also where it passes on.

        Parameters
        ----------
        removed : ndarray, shape (ranks, steps)
            Time (ns) that the ranks lose themselves.
        names : sequence of str
            `HOST_GAPS` that the cause consists of.
        share : ndarray, optional
            Part of them that is of this cause, by rank and step.
        """
        if not removed.any():
            return 0.0
        lost = removed + self.collective_waits.propagated(self.steps, names, share)
        return max(self.steps.gain_ns(removed), float(np.median(lost, axis=0).mean()))

    def by_rank_and_step(self, name: str, matrix: Matrix) -> pd.DataFrame:
        """A table of ``rank``, ``step`` and a value for each."""
        ranks, steps = len(self.ranks), len(self.steps.numbers)
        return pd.DataFrame(
            {
                "rank": np.repeat(np.array(self.ranks, dtype=np.int64), steps),
                "step": np.tile(np.array(self.steps.numbers, dtype=np.int64), ranks),
                name: matrix.ravel(),
            }
        )

    def steps_with(self, removed: Matrix) -> tuple[int, ...]:
        """Numbers of the steps that a cause takes a considerable part of; none if not recorded."""
        if not self.steps.are_recorded:
            return ()
        taken = removed.max(axis=0)
        chosen = taken >= HALF_OF_LARGEST * taken.max(initial=0.0)
        return tuple(np.array(self.steps.numbers)[chosen].tolist())

    def finding(
        self,
        cause: Cause,
        *,
        words: str,
        recoverable_ns: float,
        ranks: tuple[int, ...],
        steps: tuple[int, ...],
        action: str,
        evidence: Mapping[str, Evidence] | None = None,
        links: tuple[Link, ...] = (),
        confidence: Confidence = "measured",
        is_lower_bound: bool = False,
        detail: str = "",
    ) -> Finding:
        """Make a finding; the cost is added to the words, unless it is less than 1 ns.

        Parameters
        ----------
        words : str
            The cause as a sentence without its full stop: the rank first, then the numbers.
        recoverable_ns : float
            Of the mean step; 0 where it cannot be told.
        is_lower_bound : bool
            Whether it may cost more than can be told.
        detail : str
            What is added to the words if the sentence does not get too long, with its comma.
        """
        recoverable_ns = recoverable_ns if recoverable_ns >= 1 else 0.0
        parts = Words(words, detail, is_lower_bound)
        share, cost = self.cost(recoverable_ns, is_lower_bound=is_lower_bound)
        return Finding(
            cause=cause.name,
            ranks=ranks,
            steps=steps,
            sentence=parts.sentence(cost if recoverable_ns else ""),
            words=parts,
            recoverable_ms=recoverable_ns / NS_PER_MS,
            percent=share,
            action=action,
            evidence=evidence or {},
            links=links,
            confidence=confidence,
        )

    def cost(self, recoverable_ns: float, *, is_lower_bound: bool) -> tuple[float, str]:
        """Share of the mean step (%) of a price, and the price in words.

        The step is that of the header and the budget, `Diagnosis.period_ns`, also where a slow
        first step is left out of what the price is found in.
        """
        period_ns = self.all_steps.period_ns
        share = 100 * recoverable_ns / period_ns if period_ns else 0.0
        whole = f"{'each' if self.steps.are_recorded else 'the'} {duration(period_ns)}"
        least = "at least " if is_lower_bound else ""
        return share, (
            f"{least}{duration(recoverable_ns)} of {whole} {self.steps.noun} ({percent(share)})"
        )
