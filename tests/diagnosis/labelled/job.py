"""A labelled job: how to write it, and what is true of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from statistics import fmean

from tests.simulator.layouts import TOKENS_PER_STEP
from tests.simulator.plan import Plan
from tests.simulator.simulation import Simulation, simulate_plan, write_plan

NS_PER_MS = 1_000_000


class Kind(Enum):
    """What is asked of a diagnosis."""

    CAUSE = "cause"
    """Name it, and the ranks."""
    HINT = "hint"
    """Something is wrong that this recording cannot tell: silence is right, and so is the next
    best word; blaming hardware for software is not."""
    HEALTHY = "healthy"
    TRAP = "trap"
    """Conspicuous, but harmless."""


TRUE_WITHOUT_A_CAUSE = {"decode": ("exposed_communication",)}
"""By layout; what may be said of its healthy jobs: decoding by tensor parallelism spends a third
of its time in all-reduces."""


@dataclass(frozen=True)
class Label:
    """What is true of a job.

    Attributes
    ----------
    causes : tuple of str
        The cause; further ones are as good a word in this recording. If nothing is wrong, those
        that may be named nevertheless.
    ranks : tuple of frozenset
        The ranks to blame; where there are several sets, each of them will do.
    loss_ms : float
        What the cause costs per analysed step, of a server per token, or in the whole recording if
        it has no steps: simulated with and without.
    percent : float
        The same in percent of the time of the job with the cause.
    """

    causes: tuple[str, ...] = ()
    ranks: tuple[frozenset[int], ...] = ()
    loss_ms: float = 0.0
    percent: float = 0.0


@dataclass(frozen=True)
class LabelledJob:
    """A job to be written and diagnosed.

    Attributes
    ----------
    recording
        What the profiler wrote or left out, in a word.
    plan, twin
        The job, and the same job without the cause.
    causes, ranks
        As in `Label`.
    """

    name: str
    kind: Kind
    layout: str
    recording: str
    plan: Plan
    twin: Plan
    causes: tuple[str, ...] = ()
    ranks: tuple[frozenset[int], ...] = ()

    def write(self, folder: Path) -> Path:
        """Write its traces into a new folder, and return that."""
        folder.mkdir(parents=True)
        paths = {rank: folder / f"rank-{rank}.json.gz" for rank in self.plan.files}
        _SPANS[_key(self.plan)] = _spans(write_plan(self.plan, paths))
        return folder

    @cached_property
    def label(self) -> Label:
        """What is true of it."""
        recording = self.plan.recording
        serves = self.layout == "decode" and recording.annotations  # a step of a server is a token
        per_step = serves or (recording.annotations and recording.steps)
        sick_ms, twin_ms = (
            _milliseconds(plan, per_step=per_step) for plan in (self.plan, self.twin)
        )
        loss_ms = sick_ms - twin_ms
        percent = 100 * loss_ms / sick_ms
        return Label(self.causes, self.ranks, loss_ms / (TOKENS_PER_STEP if serves else 1), percent)


def true_without_a_cause(plan: Plan) -> tuple[str, ...]:
    """Causes that may be named in a healthy job of this layout."""
    return TRUE_WITHOUT_A_CAUSE.get(plan.layout, ())


def either(ranks: Iterable[int]) -> tuple[frozenset[int], ...]:
    """Accept all of these ranks together, or any one of them."""
    every = frozenset(ranks)
    return (every, *(frozenset([rank]) for rank in sorted(every)))


Spans = list[list[tuple[int, int]]]
"""Start and end of each step, by rank."""
_SPANS: dict[str, Spans] = {}


def _milliseconds(plan: Plan, *, per_step: bool) -> float:
    """Return the mean time of the analysed steps (all but the last), or that of all steps."""
    key = _key(plan)
    if key not in _SPANS:
        _SPANS[key] = _spans(simulate_plan(plan))
    spans = _SPANS[key]
    if not per_step:
        return fmean(steps[-1][1] - steps[0][0] for steps in spans) / NS_PER_MS
    durations = [end_ns - start_ns for steps in spans for start_ns, end_ns in steps[:-1]]
    return fmean(durations) / NS_PER_MS


def _key(plan: Plan) -> str:
    """Tell apart what takes another time: who is recorded, and by which clock, does not."""
    return repr(replace(plan, recorded_ranks=None, clocks={}))


def _spans(simulation: Simulation) -> Spans:
    return [process.step_spans_ns for process in simulation.processes]
