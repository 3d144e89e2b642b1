"""Run hta_widgets and HTA alternately on the same traces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.children import Child, Outcome, by_turns
from benchmarks.traces import V100, Files, Traces

MORE_OFTEN = 3
"""Factor on the runs of tasks that take only a second or two, or two CPUs: another user of a CPU
slows them down for the whole time."""
OUR_CALLS, THEIR_CALLS = 9, 3
"""Calls of each method in a run."""


@dataclass(frozen=True)
class Bench:
    """What to measure with, and how much.

    Attributes
    ----------
    ours, theirs : Child
    traces : Traces
    repeats : int
        Times that each process is run.
    large, medium, kernels : int
        Events of the large and of the medium traces, GPU operations under the sliders.
    sequences_s : float
        How long HTA may look for kernel sequences; it is not asked to when 0.
    """

    ours: Child
    theirs: Child
    traces: Traces
    repeats: int
    large: int
    medium: int
    kernels: int
    sequences_s: float

    def both(self, task: str, **arguments: Any) -> tuple[list[Outcome], list[Outcome]]:  # noqa: ANN401
        """Run a task with both, by turns."""
        runs = {
            "ours": partial(self.ours.run, task, **arguments),
            "theirs": partial(self.theirs.run, task, **arguments),
        }
        found = by_turns(runs, self.repeats)
        return found["ours"], found["theirs"]

    def calls(self, **arguments: Any) -> tuple[list[Outcome], list[Outcome]]:  # noqa: ANN401
        """Call methods with both.

        Ours is run before and after HTA's and calls more often, as a call takes milliseconds: the
        machine may be slow for as long as all of them take.
        """
        ours = partial(self.ours.run, "analyses", repeats=OUR_CALLS, **arguments)
        theirs = partial(self.theirs.run, "analyses", repeats=THEIR_CALLS, **arguments)
        found = by_turns({"before": ours, "theirs": theirs, "after": ours}, self.repeats)
        return found["before"] + found["after"], found["theirs"]

    def more_often(self) -> Bench:
        """Return the same with more runs, for what is short."""
        return replace(self, repeats=MORE_OFTEN * self.repeats)

    def loads(self, files: Files) -> tuple[list[Outcome], list[Outcome], list[Outcome]]:
        """Load with both, and with HTA without its marking of steps.

        That takes as long as there are steps, and a trace made longer has more of them. Ours is
        run before, between and after HTA's: its runs are so short that the machine may be slow for
        all of one.
        """
        ours = partial(self.ours.run, "load", files=files, with_pandas=True)
        theirs = partial(self.theirs.run, "load", files=files)
        runs = {
            "before": ours,
            "theirs": theirs,
            "between": ours,
            "without steps": partial(theirs, without_steps=True),
            "after": ours,
        }
        found = by_turns(runs, self.repeats)
        every = [outcome for when in ("before", "between", "after") for outcome in found[when]]
        return every, found["theirs"], found["without steps"]

    def v100(self) -> Files:
        """The large trace that has the most GPU operations."""
        return self.traces.tiled("v100", V100, events=self.large)

    def eight_ranks(self) -> Files:
        """A job of eight ranks."""
        return self.traces.tiled("job", V100, events=self.medium, ranks=8)
