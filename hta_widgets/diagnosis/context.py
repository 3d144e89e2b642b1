"""What a rule gets: the steps of all ranks, what was found before it, and the limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.facts.host_facts import HostFacts
from hta_widgets.diagnosis.finding import (
    NEARLY,
    Bound,
    Confidence,
    Evidence,
    Finding,
    LessBy,
    Link,
    Price,
    Words,
    choose_advice,
    deciding_conditions,
    in_words_of,
)
from hta_widgets.diagnosis.job.hardware import Hardware, hardware
from hta_widgets.diagnosis.job.health import JobHealth
from hta_widgets.diagnosis.job.steps import Matrix, Steps
from hta_widgets.diagnosis.job.traffic import Traffic, traffic_of
from hta_widgets.diagnosis.limits import Limits, TrialLimits
from hta_widgets.diagnosis.proof.what import Removed, Seen, What, what_of_class
from hta_widgets.diagnosis.rank_answers import RankFacts, hosts_in_steps, replay_of_ranks
from hta_widgets.diagnosis.replay.edits import (
    Computing,
    ComputingLess,
    Edit,
    HostSpeed,
    ShorterOperations,
)
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.quantities import NS_PER_MS, duration, percent
from hta_widgets.trace.job import Job

HALF_OF_LARGEST: Final = 0.5
"""A rank is to blame if its share of the cause is at least this fraction of the largest share."""

HALF_OF_MEAN: Final = 0.5
"""The same for a step, relative to the mean of all steps."""

MUCH_OF_STEP: Final = 0.15
"""The same for a step, relative to its own length."""

UNSOUND: Final = ", though the recording is not sound"
"""What a sentence adds if the recording has faults; the notices say which."""

MOST_RANKS: Final = 0.75
"""All ranks are to blame if at least this fraction of them is."""


@dataclass(frozen=True, eq=False)
class Context:
    """What rules work on."""

    job: Job
    steps: Steps
    """The steps that count: without autotuning and warm-up, once these are known."""
    all_steps: Steps
    """All steps, with those of autotuning and warm-up."""
    facts: Mapping[int, RankFacts]
    """By rank."""
    limits: Limits
    health: JobHealth = field(default_factory=JobHealth)
    """What the recorders got wrong."""
    found: dict[Cause, Finding] = field(default_factory=dict)
    """What the rules before this one found."""
    prices: dict[Cause, Price] = field(default_factory=dict)
    """Prices of the found causes that are replayed."""
    hidden: list[str] = field(default_factory=list)
    """Notices on what would save GPU work, but no time."""
    not_explained: list[str] = field(default_factory=list)
    """Notices on losses that no finding explains."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks with GPU work, in the order of the rows of all matrices."""
        return self.steps.ranks

    @property
    def has_names(self) -> bool:
        """Whether any rank has named kernels, not just times at which some ran."""
        return any(self.facts[rank].records.kernels for rank in self.ranks)

    @property
    def lacks_kernels(self) -> bool:
        """Whether no rank has GPU work beyond a few copies, which cannot be all that a job does."""
        return not any(self.facts[rank].records.kernel_work for rank in self.ranks)

    @property
    def analysed(self) -> tuple[Job, tuple[int, ...], tuple[int, ...]]:
        """Job, ranks and steps that count, as analyses take them."""
        return self.job, self.ranks, self.steps.marked

    @property
    def selection(self) -> TimeSelection | None:
        """The time of the steps that count, as analyses take it."""
        return TimeSelection.of(self.job, self.ranks, steps=self.steps.marked)

    def without_steps(self, left_out: Collection[int]) -> Context:
        """The same without some steps."""
        return replace(self, steps=self.steps.without(left_out))

    def without_trials(self) -> Context:
        """The same without the trials of an autotuner that no step marks set apart."""
        columns = {rank: self.facts[rank].steps_without_trials for rank in self.ranks}
        if self.steps.are_recorded or not any(columns.values()):
            return self
        known = {rank: each or self.facts[rank].steps for rank, each in columns.items()}
        return replace(self, steps=Steps.of(known))

    def hosts(self, ranks: Sequence[int] = ()) -> Mapping[int, HostFacts]:
        """Facts on the hosts of some ranks (all if none is named), in the steps that count."""
        chosen, numbers = tuple(ranks or self.ranks), self.steps.numbers
        facts = {rank: self.facts[rank] for rank in chosen}
        # a first step that loaded code for 83 ms was reported as a stall of the host in the others
        if self.steps.are_recorded and any(
            each.steps["step"].size > len(numbers) for each in facts.values()
        ):
            return self.job.remember(hosts_in_steps, self.limits.trials, chosen, numbers)
        return {rank: each.host for rank, each in facts.items() if each.host is not None}

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

    def computing(self, column: str, *, saved: bool = False) -> Matrix:
        """Time (ns) in a kind of computing kernels, or how much of it could be saved (ns)."""
        numbers = self.steps.numbers
        rows = []
        for rank in self.ranks:
            facts = self.facts[rank].compute
            of_steps = (facts.saved if saved else facts.taken)[column].tolist()
            values = dict(zip(facts.step.tolist(), of_steps, strict=True))
            whole = [sum(values.values())]
            rows.append([values[each] for each in numbers] if self.steps.are_recorded else whole)
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(numbers))

    def computing_share(self, column: str, ranks: Sequence[int]) -> float:
        """Share (%) of the compute time of some ranks that is in a kind of computing kernels."""
        rows = [self.ranks.index(rank) for rank in ranks]
        taken_ns = self.computing(column)[rows].sum()
        return float(100 * taken_ns / max(self.steps["compute"][rows].sum(), 1))

    def is_worth_it(self, cause: Cause, recoverable_ns: float) -> bool:
        """Whether a cause costs more than its limit."""
        least_percent: float = getattr(self.limits, cause.limit)
        least_ns = least_percent / 100 * self.steps.median_period_ns
        if profiler_ns := self.replay.profiler_ns:
            least_ns *= self.step_ns / (self.step_ns + profiler_ns)
        return recoverable_ns >= max(least_ns, self.limits.least_ms * NS_PER_MS)

    def blamed(self, share: Float64Array) -> tuple[int, ...]:
        """Ranks whose share of the cause is at least half of the largest; all ranks if most are."""
        guilty = share >= HALF_OF_LARGEST * share.max(initial=0.0)
        guilty &= share > 0
        if np.count_nonzero(guilty) >= MOST_RANKS * len(self.ranks):
            return self.ranks
        return tuple(rank for rank, is_guilty in zip(self.ranks, guilty, strict=True) if is_guilty)

    @property
    def replay(self) -> Replay:
        """The recorded job, replayed for all analysed steps of these ranks.

        Only the job holds it, so that the job can forget it: a diagnosis keeps its context if the
        GPU is the bottleneck.
        """
        return self.job.remember(replay_of_ranks, *self.asked_of_replay)

    @property
    def asked_of_replay(self) -> tuple[TrialLimits, tuple[int, ...], tuple[int, ...]]:
        """The arguments of `replay_of_ranks`."""
        every = self.all_steps
        return self.limits.trials, every.ranks, every.numbers

    def price(
        self,
        removed: Matrix,
        *edits: Edit,
        bound: Bound = "measured",
        after: Sequence[Edit] = (),
        between_ranks: bool = False,
        has_lower: bool = True,
    ) -> Price:
        """By how much the mean step would be shorter without a cause, which edits remove.

        ``removed`` is the own time (ns) that the ranks would save in each step: the price if clocks
        contradict each other, so that nothing can be replayed. Edits in ``after`` have prices of
        their own: only what is left to gain after them counts. ``between_ranks`` if some ranks make
        the others wait. Notices do not need the least that it may be, which ``has_lower`` finds.
        """
        if not removed.any():
            return Price.counted(0.0, bound)
        replay, numbers = self.replay, self.steps.numbers
        if not replay.is_sound:
            return Price.counted(self._known_part * self.steps.gain_ns(removed), bound)

        def gain_ns(*, peers_fixed: bool) -> float:
            every = replay.gain_ns((*after, *edits), numbers, peers_fixed=peers_fixed)
            if not after:
                return every
            return max(every - replay.gain_ns(after, numbers, peers_fixed=peers_fixed), 0.0)

        ns = gain_ns(peers_fixed=False)
        if replay.has_unknown_peers and between_ranks and len(self.ranks) > 1:
            # communication that is not matched may be waiting for one of these ranks, which only
            # the ranks' own time leaves out
            ns = max(ns, self.steps.gain_ns(removed))
        least: dict[LessBy, float] = {"": ns}
        if ns and has_lower:
            least["profiler"] = max(ns - replay.unexplained_slowdown_ns, 0.0)
            least["lead"] = replay.lasting_gain_ns(after, edits)
            if replay.has_unknown_peers:
                least["peers"] = gain_ns(peers_fixed=True)
        less_by = min(least, key=least.__getitem__)
        lower_ns = least[less_by]
        known = bound if replay.is_explained and self._known_part == 1 else "at least"
        known_ns, known_lower_ns = self._known_part * ns, self._known_part * lower_ns
        return Price(known_ns, known_lower_ns, known, edits, tuple(after), less_by)

    @property
    def _known_part(self) -> float:
        """Fraction of the analysed steps that do not lack GPU work.

        The left-out steps may have lost nothing. If each were assumed to lose the same, a loader
        that is slow in every other step would cost half as much again when one of the fast steps is
        left out.
        """
        count = len(self.all_steps.numbers)
        return 1 - len(self.health.left_out_steps) / count

    def faster_kernels(
        self, cause: Cause, what: str, saved: Matrix, *columns: str, bound: Bound = "measured"
    ) -> tuple[Price, float] | None:
        """The price of kernels that could be faster, and what it would be if the host kept up (ns).

        None if it is not worth a finding; if most of it is hidden behind the host, a notice says
        what would shorten the kernels. The columns are those of `Savings`.
        """
        if not self.is_worth_it(cause, float(saved.sum(axis=0).mean())):
            return None  # a step gets no shorter than by all that its kernels could take less
        shorter = self.shorter_kernels(*columns)
        price, hidden_ns = self.price(saved, shorter, bound=bound), 0.0
        if self.replay.is_sound:
            every = self.replay.gain_ns((HostSpeed(np.inf), shorter), self.steps.numbers)
            hidden_ns = max(every - self._without_host_ns, 0.0)
        if self.is_worth_it(cause, price.ns):
            return price, hidden_ns
        if self.is_worth_it(cause, hidden_ns) and not self.health.lacks_waits:
            whole = f"{'each' if self.steps.are_recorded else 'the'} {self.steps.noun}"
            left = f"shorten it by only {duration(price.ns)}" if price.ns >= 1 else "not shorten it"
            said = f"{what} would save {duration(hidden_ns)} of GPU work in {whole} but {left}"
            words = in_words_of(
                f"{said}, because the host would then be the bottleneck", self.conditions()
            )
            self.hidden.append(words)
        return None

    @cached_property
    def _without_host_ns(self) -> float:
        return self.replay.gain_ns((HostSpeed(np.inf),), self.steps.numbers)

    def edits_of(self, causes: Iterable[Cause]) -> list[Edit]:
        """The edits that remove those of some causes that were found."""
        return [
            edit for cause in causes if cause in self.prices for edit in self.prices[cause].edits
        ]

    def faster_computing(self, factor: Matrix) -> Computing:
        """The edit that makes kernels of a rank and step take this many times as long."""
        return Computing(self._of_replay(factor, 1))

    def computing_less(self, excess: Matrix) -> ComputingLess:
        """The edit that shortens the computing of ranks by some time (ns) in each step."""
        return ComputingLess(self._of_replay(excess, 0))

    def _of_replay(self, values: Matrix, other: float) -> Matrix:
        """Values by rank and step, placed into those of the replay, which may have more of both."""
        job = self.replay.job
        found = np.full((len(job.ranks), len(job.steps)), float(other))
        rows = [job.ranks.index(rank) for rank in self.ranks]
        columns = [job.steps.index(number) for number in self.steps.numbers]
        found[np.ix_(rows, columns)] = values
        return found

    def shorter_kernels(self, *columns: str) -> ShorterOperations:
        """The edit that shortens kernels by what columns of `Savings` say."""

        def saved_ns(rank: int, rows: Int64Array) -> Float64Array:
            savings = self.facts[rank].compute.savings
            saved = [savings.of_rows(each, rows) for each in columns]
            return np.asarray(np.sum(saved, axis=0, dtype=np.float64))

        return self._shorter(saved_ns)

    def without_work(self, rows: Mapping[int, Int64Array]) -> ShorterOperations:
        """The edit that makes some work of each rank, given as rows of its events, take no time."""
        return self._shorter(lambda rank, own: np.where(np.isin(own, rows[rank]), np.inf, 0.0))

    def _shorter(self, less_ns: Callable[[int, Int64Array], Float64Array]) -> ShorterOperations:
        job = self.replay.job
        less = np.zeros(job.stream.size)
        for place, (rank, row) in enumerate(zip(job.ranks, job.of_parts("row"), strict=True)):
            own = np.flatnonzero((job.operation_rank == place) & ~job.is_finish)
            less[own] = less_ns(rank, row[job.operation[own]])
        return ShorterOperations(less)

    def by_rank_and_step(self, **columns: Matrix) -> pd.DataFrame:
        """A table of ``rank``, ``step`` and some values; in ms if a name says so."""
        ranks, steps = len(self.ranks), len(self.steps.numbers)
        values = {
            name: matrix.ravel() / (NS_PER_MS if name.endswith("_ms") else 1)
            for name, matrix in columns.items()
        }
        return pd.DataFrame(
            {
                "rank": np.repeat(np.array(self.ranks, dtype=np.int64), steps),
                "step": np.tile(np.array(self.steps.numbers, dtype=np.int64), ranks),
                **values,
            }
        )

    def steps_with(self, removed: Matrix) -> tuple[int, ...]:
        """Numbers of the steps that lose considerable time to a cause; none if not recorded.

        The measure is the mean loss, as for the price, or the length of the step.
        """
        if not self.steps.are_recorded:
            return ()
        taken = removed.max(axis=0)
        chosen = taken >= HALF_OF_MEAN * (taken.mean() if taken.size else 0)
        # of two steps that lose 11.3 of 20.6 ms and 3.2 of 11.3 ms, both count
        chosen |= (removed >= MUCH_OF_STEP * self.steps["period"]).any(axis=0)
        return tuple(np.array(self.steps.numbers)[chosen].tolist())

    def finding(
        self,
        cause: Cause,
        *,
        words: str,
        price: Price,
        ranks: tuple[int, ...],
        steps: tuple[int, ...],
        conditions: Iterable[Condition] = (),
        evidence: Mapping[str, Evidence] | None = None,
        links: tuple[Link, ...] = (),
        seen_in: What | None = None,
        seen_steps: tuple[int, ...] = (),
        region: str = "",
        confidence: Confidence = "measured",
        detail: str = "",
        cost: str = "",
    ) -> Finding:
        """Make a finding, whose price is not known if it is less than 1 ns.

        The ``words`` are a sentence without its full stop: ranks first, then numbers. The
        ``detail``, with its comma, follows unless the sentence gets too long, and then the price,
        or ``cost`` if that is not part of a step. ``conditions`` hold in addition to those of the
        recordings of its ranks. It is seen in what ``seen_in`` says, or else in the time that would
        be saved or, if that is not replayed, in all of the budget class that counts it; in
        ``seen_steps``, or in all that count. See `Seen` for the ``region``.
        """
        recoverable_ns = price.ns if price.ns >= 1 else 0.0
        lower_ns = min(price.lower_ns, recoverable_ns) if price.lower_ns >= 1 else 0.0
        known = self.conditions(ranks) | {*conditions}
        percent_of_step = self._percent(recoverable_ns)
        detail = detail if not self.health.doubts_of(percent_of_step) else UNSOUND
        parts = Words(in_words_of(words, known), in_words_of(detail, known))
        every = self.all_steps
        seen: What | Removed = seen_in or what_of_class(cause.seen_in)
        if price.edits and seen_in is None:
            seen = Removed(price.edits, price.after, every.ranks, every.numbers)
        said = deciding_conditions(cause.advice, known)
        if price.edits:
            self.prices[cause] = price
        return Finding(
            cause=cause.name,
            ranks=ranks,
            steps=steps,
            sentence=parts.sentence((cost or self._cost(price)) if recoverable_ns else ""),
            words=parts,
            recoverable_ms=recoverable_ns / NS_PER_MS,
            lower_ms=lower_ns / NS_PER_MS,
            less_by=price.less_by if price.lower_ns < NEARLY * recoverable_ns else "",
            bound=price.bound,
            percent=percent_of_step,
            advice=choose_advice(cause.advice, known),
            evidence={**(evidence or {}), **({"conditions": said} if said else {})},
            links=links,
            seen=Seen(
                seen,
                tuple(rank for rank in self.ranks if rank in ranks) or self.ranks,
                seen_steps or self.steps.numbers,
                self.limits.trials,
                region,
            ),
            confidence=self._confidence(cause, price, confidence),
        )

    def conditions(self, ranks: Iterable[int] = ()) -> frozenset[Condition]:
        """What holds for the recordings of some ranks; for all if none of them has a recording."""
        recorded = [rank for rank in ranks if rank in self.facts] or self.ranks
        return frozenset().union(*(self.facts[rank].conditions for rank in recorded))

    def _confidence(self, cause: Cause, price: Price, known: Confidence) -> Confidence:
        """How sure a price is: inconclusive if too low for a finding, or not replayed."""
        if (
            self.health.doubts_of(self._percent(price.ns))
            or self.health.lacks_waits
            or not self.replay.is_sound
            or (price.edits and not self.replay.is_explained)
        ):
            return "inconclusive"
        is_open = price.less_by != "link" and not self.is_worth_it(cause, price.lower_ns)
        is_open &= price.lower_ns < price.ns
        is_open |= bool(self.replay.unexplained_slowdown_ns) and price.lower_ns < NEARLY * price.ns
        return "inconclusive" if is_open else known

    def _percent(self, ns: float) -> float:
        step_ns = self.step_ns
        return 100 * ns / step_ns if step_ns else 0.0

    @property
    def step_ns(self) -> float:
        """Length of the mean analysed step of the job, from its first start to its last end.

        Without the profiler's time, as far as that is known.
        """
        return self.replay.step_ms * NS_PER_MS if self.ranks else 0.0

    def _cost(self, price: Price) -> str:
        """The price in words.

        It refers to all analysed steps, even if a slow first step is left out of the search.
        """
        step_ns = self.step_ns
        whole = f"{'each' if self.steps.are_recorded else 'the'} {duration(step_ns)}"
        of = f"of {whole} {self.steps.noun}"
        share = percent(self._percent(price.ns))
        if round(price.lower_ns / NS_PER_MS, 3) < NEARLY * round(price.ns / NS_PER_MS, 3):
            if price.lower_ns < 1 and price.less_by == "peers":  # rounding leaves 1e-6
                said = "if other ranks keep up"
                return f"up to {duration(price.ns)} {of} ({share}), {said}"
            lower = duration(price.lower_ns if price.lower_ns >= 1 else 0)
            if price.less_by == "lead":
                later = f"{lower} in steady state"
                return f"{duration(price.ns)} {of} at first ({share}), {later}"
            return f"{lower} to {duration(price.ns)} {of} (up to {share})"
        bound = "up to" if price.bound == "at most" else price.bound
        of_price = "" if bound == "measured" else f"{bound} "
        return f"{of_price}{duration(price.ns)} {of} ({share})"
