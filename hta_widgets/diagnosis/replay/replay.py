"""A recorded job, replayed with changes to find how long a step would take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.analyses.clocks.alignment import Alignment
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Float64Array, Mask
from hta_widgets.diagnosis.replay.binding import Solution
from hta_widgets.diagnosis.replay.critical_path import UNEXPLAINED, CriticalPath, bound_by
from hta_widgets.diagnosis.replay.edits import Edit, HostSpeed, PeersFixed, applied
from hta_widgets.diagnosis.replay.meetings import meetings
from hta_widgets.diagnosis.replay.network import Network
from hta_widgets.diagnosis.replay.rank_part import PackedPart
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob, Weights, recorded_job
from hta_widgets.errors import ParameterError
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import NS_PER_MS, counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.facts import unprofiled_among, unprofiled_step_ns

MOST_UNMATCHED: Final = 2.0
"""Percent of a step in communication without recorded partners above which a price is a range."""

MOST_UNEXPLAINED: Final = 10.0
"""Percent of the critical path on which nothing recorded shows what was waited for. With more, a
price may be too high or too low."""

MOST_OFF_NS: Final = 1_000
"""Largest error of a replay without changes with which it can be asked for others."""

LEAST_SLOWED: Final = 0.05
"""Share of a step by which the recording must be longer: steps differ by less among themselves."""

MOST_SLOWED: Final = 4.0
"""How many times as long a host may take because of the profiler: 1.6 to 3.7 on two hosts of an
H200. A larger factor has another cause, such as a loader that was slower than before."""

LEAST_EXPLAINED: Final = 0.5
"""Share of the recording's extra time that a faster host has to explain."""

NEARLY_ALL: Final = 0.995
"""Share of what the fastest host gains, above which the factor is unknown: if the GPU is the
bottleneck without the profiler, an even faster host changes nothing."""

USUALLY_SLOWED: Final = 2.0
"""Factor to assume then, if none larger is found."""

HALVINGS: Final = 8
"""Halvings of the range of the factor, on a logarithmic scale: half a percent is left."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WhatIf:
    """A step as it would be with some changes."""

    step_ms: float
    """Length of the mean step (ms)."""
    gain_ms: float
    """How much shorter it is than `Replay.step_ms`; negative if it is longer."""
    lower_ms: float
    upper_ms: float
    """Bounds of the gain (ms). They differ if this job communicates with ranks that are not
    recorded; the lower bound keeps these as slow as before."""
    by_rank: Mapping[int, float]
    """End of the last step of each rank (ms), counted from the start of the first step."""
    steps: Mapping[int, float]
    """Length of each step (ms) by its number."""


class _Changed(NamedTuple):
    """The steps that count, with some edits."""

    lengths_ns: Float64Array
    host_ns: float
    """How long the slowest host needs for a step without waiting."""

    @property
    def paced_ns(self) -> float:
        """The mean step, which in the long run takes no less than the host needs."""
        return max(float(self.lengths_ns.mean()), self.host_ns)


class Replay:
    """A recorded job that can be asked what a step would take if something were different.

    If a recording states how long its steps took without the profiler, all answers are for a host
    that is faster by as much: the host of a GPT-2 on an H200 needed 26 ms for a step, but 61 ms in
    the recording, of which launching seemed to cost 56.
    """

    def __init__(
        self, job: RecordedJob, steps: Sequence[int] = (), unprofiled_step_ns: int = 0
    ) -> None:
        self.job = job
        self.network = Network(job)
        self.steps = tuple(steps) or job.steps
        """Numbers of the steps that count; the others are replayed too, as these wait for them."""
        self.unprofiled_step_ns = unprofiled_step_ns
        """Mean length of a step before the profiler ran; 0 if not known."""
        self._counts = np.isin(job.steps, self.steps)
        self._changed: dict[tuple[Edit, ...], _Changed] = {}

    def __repr__(self) -> str:
        """The mean step, and what sets its time."""
        return f"Replay(step_ms={self.step_ms:.3f}, {bound_by(self.shares)})"

    @cached_property
    def without_profiler(self) -> tuple[HostSpeed, ...]:
        """The change that removes the profiler, if the length of a step without it is known.

        It is found from all steps that are replayed, whichever of them count.
        """
        whole_ns = self.unprofiled_step_ns
        if not whole_ns or not self.is_sound:
            return ()
        recorded_ns = float(self._between_ends_ns(self._as_recorded.nodes).mean())

        def gain_ns(factor: float) -> float:
            nodes, _ = self.network.forward(HostSpeed(factor).apply(self.job, self.job.weights))
            return recorded_ns - float(self._between_ends_ns(nodes).mean())

        more_ns = recorded_ns - whole_ns
        if more_ns < LEAST_SLOWED * whole_ns:
            return ()
        most_ns = gain_ns(MOST_SLOWED)
        if most_ns < LEAST_EXPLAINED * more_ns:
            return ()  # the earlier steps were different: not the first ones, or without a pause
        wanted_ns = min(more_ns, NEARLY_ALL * most_ns)
        low, high = 1.0, MOST_SLOWED
        for _ in range(HALVINGS):
            factor = (low * high) ** 0.5
            if gain_ns(factor) < wanted_ns:
                low = factor
            else:
                high = factor
        return (HostSpeed(high if wanted_ns == more_ns else max(high, USUALLY_SLOWED)),)

    def weights(self, edits: Sequence[Edit] = ()) -> Weights:
        """How long everything takes with some edits, without the profiler as far as known."""
        return applied(self.job, (*self.without_profiler, *edits))

    @cached_property
    def _as_recorded(self) -> Solution:
        return Solution(self.network, self.job.weights)

    @cached_property
    def solution(self) -> Solution:
        """When everything happens, and what it waits for: as recorded, except for the profiler."""
        return (
            Solution(self.network, self.weights()) if self.without_profiler else self._as_recorded
        )

    @cached_property
    def _of_path(self) -> tuple[dict[str, float], int]:
        """What is often asked of the critical path, which itself takes 40 MB for 1.5 M events."""
        path = self.critical_path()
        return path.shares, path.length_ns

    @cached_property
    def unexplained_slowdown_ns(self) -> float:
        """How much longer a step is than before the profiler ran, for unknown reasons.

        This time may not be part of other steps: a ResNet-50 needed 95 ms for a step, and 201 ms in
        the recording, of which the host paused for 125 ms.
        """
        whole_ns = self.unprofiled_step_ns
        more_ns = self.step_ms * NS_PER_MS - whole_ns
        return more_ns if whole_ns and more_ns > LEAST_SLOWED * whole_ns else 0.0

    @property
    def _profiler_notice(self) -> str:
        step_ns = self.step_ms * NS_PER_MS
        said = (
            f"a step took {duration(self.unprofiled_step_ns)} before the profiler ran, and "
            f"{duration(step_ns + self.profiler_ns)} with it"
        )
        if self.without_profiler:
            (host,) = self.without_profiler
            said += (
                f": prices are of steps of {duration(step_ns)}, with a host {host.factor:.2g} "
                "times as fast as in the recording"
            )
        if other_ns := self.unexplained_slowdown_ns:
            said += (
                f"; {duration(other_ns)} of that no faster host explains: other steps may not have "
                "it, so prices may be as much lower"
            )
        return said

    @property
    def shares(self) -> dict[str, float]:
        """Percent of the critical path by what sets its time, largest first."""
        return self._of_path[0]

    def shares_with(self, edits: Sequence[Edit]) -> dict[str, float]:
        """Percent of the critical path by what sets its time, with some edits."""
        if not edits:
            return self.shares
        return CriticalPath.of(Solution(self.network, self.weights(edits)), self.steps).shares

    @property
    def path_ns(self) -> int:
        """Length of the critical path (ns)."""
        return self._of_path[1]

    @cached_property
    def _recorded(self) -> Float64Array:
        return self._between_ends_ns(self._as_recorded.nodes)[self._counts]

    @cached_property
    def _unprofiled(self) -> Float64Array:
        return self._between_ends_ns(self.solution.nodes)[self._counts]

    @property
    def step_ms(self) -> float:
        """Length of the mean step (ms), without the profiler as far as known."""
        return float(self._unprofiled.mean()) / NS_PER_MS

    @property
    def profiler_ns(self) -> float:
        """How much longer the profiler makes the mean step (ns), as far as known."""
        return float(self._recorded.mean() - self._unprofiled.mean())

    @cached_property
    def unexplained_percent(self) -> float:
        """Percent of the steps of all ranks in which operations wait for nothing recorded."""
        parts = self.job.of_parts("starts.unexplained_ns")
        if not self._counts.all():
            of_rank = map(self._counted, self.job.parts)
            parts = [ns[own] for ns, own in zip(parts, of_rank, strict=True)]
        return self._percent(sum(float(each.sum()) for each in parts))

    def _counted(self, part: PackedPart) -> Mask:
        """Which operations of a rank were launched in steps that count."""
        counts = np.append(np.isin(part.column("steps"), self.steps), False)
        return np.asarray(counts[part.column("step")])

    @property
    def explained_percent(self) -> float:
        """Percent of the steps of all ranks in which it is known what operations wait for."""
        return max(100 - self.unexplained_percent, 0.0)

    @cached_property
    def unmatched_percent(self) -> float:
        """Percent of the steps of all ranks in communication whose partners are not recorded.

        What ran before the first step is part of none, and what runs at the same time counts once:
        otherwise, 148 % of two steps of 19 ms was communication, half of it launched before the
        recording.
        """
        job = self.job
        first_ns = job.first_ns.min(initial=np.inf)
        edges = np.append(first_ns, self.network.step_ends(self._as_recorded.nodes))
        steps = Intervals.union(edges[:-1][self._counts], edges[1:][self._counts])
        alone = np.flatnonzero(job.is_alone)
        of_rank = job.operation_rank[job.arrival[alone]]
        found_ns = 0
        for place in range(len(job.ranks)):
            own = alone[of_rank == place]
            starts, ends = (job.end_ns[each[own]] for each in (job.arrival, job.finish))
            found_ns += (Intervals.union(starts, ends) & steps).length
        return self._percent(found_ns)

    @property
    def has_unknown_peers(self) -> bool:
        """Whether enough of a step is communication without recorded partners to matter."""
        return self.unmatched_percent > MOST_UNMATCHED

    def _percent(self, ns: float) -> float:
        whole = float(self._recorded.sum()) * len(self.job.ranks)
        return 100 * ns / whole if whole else 0.0

    @cached_property
    def off_ns(self) -> float:
        """Error (ns) of the replay without changes: 0 unless clocks contradict each other."""
        times = self._as_recorded.times
        off = np.abs(times.end - self.job.end_ns).max(initial=0.0)
        return float(max(off, np.abs(times.point - self.job.point_ns).max(initial=0.0)))

    @property
    def is_sound(self) -> bool:
        """Whether it reproduces the recorded times, so that it can be asked for others."""
        return self.network.dropped == 0 and self.off_ns <= MOST_OFF_NS

    @property
    def is_explained(self) -> bool:
        """Whether it is known what sets the time of a step, so that prices may be given."""
        return self.shares[UNEXPLAINED] <= MOST_UNEXPLAINED

    @property
    def notices(self) -> tuple[str, ...]:
        """What is wrong with the replay, in words."""
        found = []
        if self.network.dropped:
            what = counted(self.network.dropped, "dependency", "dependencies")
            found.append(f"{what} that contradict the recorded times are left out of the replay")
        if self.off_ns > MOST_OFF_NS:
            found.append("the replay does not give the recorded times back, as clocks contradict")
        if self.profiler_ns or self.unexplained_slowdown_ns:
            found.append(self._profiler_notice)
        return tuple(found)

    def _with(self, edits: Sequence[Edit]) -> _Changed:
        """The steps with some edits, kept, as rules ask again for what earlier ones leave."""
        asked = tuple(edits)
        if asked not in self._changed:
            weights = self.weights(asked)
            lengths_ns = self.lengths_ns(weights) if asked else self._unprofiled
            self._changed[asked] = _Changed(lengths_ns, self._host_ns(weights))
        return self._changed[asked]

    def _host_ns(self, weights: Weights) -> float:
        """Time (ns) of the slowest host for a step, never waiting for the GPU; 0 for one step."""
        counts = self._counts[1:]
        if not counts.any():
            return 0.0
        of_ranks = self.network.host_ns(weights)[:, counts].mean(axis=1)
        return float(of_ranks[~np.isnan(of_ranks)].max(initial=0.0))

    def lasting_gain_ns(self, after: Sequence[Edit], edits: Sequence[Edit]) -> float:
        """How much shorter the mean step is (ns) once no host has a lead to use up.

        If the host is ahead of the GPU, faster kernels first catch up with it: of 11.2 ms that
        recorded steps of a ResNet would gain, 2.6 are left to later ones.
        """
        first, second = (self._with(each) for each in (after, (*after, *edits)))
        return max(first.paced_ns - second.paced_ns, 0.0)

    def lengths_ns(self, weights: Weights) -> Float64Array:
        """Length of each step that counts (ns) with these weights."""
        nodes, _ = self.network.forward(weights)
        return self._between_ends_ns(nodes)[self._counts]

    def _between_ends_ns(self, nodes: Float64Array) -> Float64Array:
        ends, first_ns = self.network.step_ends(nodes), self.job.first_ns.min(initial=np.inf)
        return np.diff(ends, prepend=first_ns)

    def gain_ns(
        self,
        edits: Sequence[Edit],
        steps: Iterable[int] | None = None,
        *,
        peers_fixed: bool = False,
    ) -> float:
        """How much shorter the mean of some steps is (ns); 0 if it would be longer.

        With peers fixed, communication without a recorded partner ends no earlier than it did.
        """
        every = (*edits, PeersFixed()) if peers_fixed else tuple(edits)
        less = self._unprofiled - self._with(every).lengths_ns
        if steps is not None:
            wanted = {*steps}
            less = less[[number in wanted for number in self.steps]]
        return max(float(less.mean()), 0.0) if less.size else 0.0

    def critical_path(self, step: int | None = None) -> CriticalPath:
        """What sets the time of all steps, or of one.

        Parameters
        ----------
        step : int, optional
            Number of the step.

        Raises
        ------
        UnknownStepError
            If it is not one of the steps that count.
        """
        return CriticalPath.of(self.solution, self.steps if step is None else (step,))

    def what_if(self, *edits: Edit) -> WhatIf:
        """The mean step with some changes together.

        Raises
        ------
        ParameterError
            If one is not a change, or names a kernel that is not replayed.
        UnknownRankError
            If one names a rank that the job lacks.
        """
        if others := [each for each in edits if not hasattr(each, "apply")]:
            msg = f"what_if takes changes of hta_widgets.diagnosis.replay.edits, got {others[0]!r}"
            raise ParameterError(msg)
        weights = self.weights(edits)
        nodes, _ = self.network.forward(weights)
        start = float(self.job.first_ns.min(initial=np.inf))
        lengths = self._between_ends_ns(nodes)[self._counts]
        gain = float(self._unprofiled.mean() - lengths.mean()) / NS_PER_MS
        lower = gain
        if self.has_unknown_peers:
            fixed = self.lengths_ns(PeersFixed().apply(self.job, weights))
            lower = float(self._unprofiled.mean() - fixed.mean()) / NS_PER_MS
        ends = self.network.rank_ends(nodes)
        return WhatIf(
            step_ms=float(lengths.mean()) / NS_PER_MS,
            gain_ms=gain,
            lower_ms=min(lower, gain),
            upper_ms=max(lower, gain),
            by_rank={
                rank: (float(end) - start) / NS_PER_MS
                for rank, end in zip(self.job.ranks, ends, strict=True)
                if np.isfinite(end)
            },
            steps={
                number: float(length) / NS_PER_MS
                for number, length in zip(self.steps, lengths, strict=True)
            },
        )


def replay_of(
    job: Job,
    parts: Mapping[int, PackedPart],
    steps: Sequence[int],
    ranks: Collection[int],
    counted: Sequence[int] = (),
) -> Replay:
    """Build the replay from the parts of the ranks with GPU work.

    All analysed ``steps`` (ascending) are replayed. Of these, the ``counted`` ones count, or all if
    none are given, on some ``ranks``.
    """
    unprofiled_ns = 0
    if tuple(steps) != (NO_STEP,):
        unprofiled_ns = unprofiled_among(job.reduce(unprofiled_step_ns, tuple(ranks)))
    recorded = recorded_job(parts, _clocks(job), meetings(job), steps, ranks)
    return Replay(recorded, counted, unprofiled_ns)


def _clocks(job: Job) -> dict[int, Alignment]:
    """The clock of each rank, in an alignment of its own."""
    if len(job.ranks) == 1:
        return {job.ranks[0]: Alignment.of_offsets(np.zeros(1, dtype=np.int64))}
    clocks = job_clocks(job)
    every = clocks.alignment
    return {
        rank: Alignment(
            every.offset_ns[place : place + 1],
            every.drift[place : place + 1],
            every.pivot_ns[place : place + 1],
        )
        for place, rank in enumerate(clocks.ranks)
    }
