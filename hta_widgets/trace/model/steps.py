"""Step marks of a profiler, a server, a program, its requests or optimizer; which are analysed."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hta_widgets.arrays import Int32Array, Int64Array, Mask
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.lazy_modules import pd
from hta_widgets.trace.model.events import GPU_SIDE, LAUNCH_CALLS, Events, Kind, KindSet, fitting
from hta_widgets.trace.model.server_steps import ServerSteps
from hta_widgets.trace.model.training import OPTIMIZER_RANGE

STEP_NAME = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})(?!\d)")
"""Names of step marks, with a step number that fits into 64 bits."""


NUMBERED_RANGE = re.compile(
    r"((?:step|iter(?:ation)?|batch|frame|request|token)s?)[\W_]{0,4}(\d{1,9})\Z", re.IGNORECASE
)
"""End of the names of ranges that count a loop: ``iteration7``, ``train_step 12``, ``Step::3``. Any
word would take the layers of a single pass for steps."""

UNNUMBERED_RANGE = re.compile(
    r"\A(?:train(?:ing)?[ _-]?)?(?:step|iter(?:ation)?|batch)\Z", re.IGNORECASE
)
"""Names of ranges that mark each turn of a loop without its number."""

XLA_PROGRAM = re.compile(r"XlaModule:#hlo_module=.*,program_id=\d{1,9}#\Z", re.DOTALL)
"""Ranges that XLA writes around each run of a compiled program, such as the training step of JAX;
what it runs to choose kernels has no number."""

WARM_UP = re.compile(r"warm", re.IGNORECASE)
"""In the names of ranges that count a warm-up, which is not what was to be measured."""

FEWEST_RANGES = 3
"""Fewest of these that mark steps: two to analyse, and the last."""

LEAST_CALLS = 0.5
"""Fraction of the CUDA or HIP calls that must be inside such ranges: those of a loader's thread, or
around the optimizer alone, are no steps."""

REQUEST_SPAN = re.compile(r"execute_diffusion_\d{1,9}_\d{1,9}x\d{1,9}|model_inference", re.ASCII)
"""Spans of whole requests, from xDiT and from scripts that record one."""

OPTIMIZER_STEP = re.compile(r"Optimizer\.step#\w+\.step", re.ASCII)

FEWEST_UPDATES = 4
"""Fewest steps of an optimizer that mark those of the training: three from end to end."""

NO_NUMBER = -1

StepSource = Literal["ProfilerStep", "server", "range", "request", "optimizer"]
"""What wrote the step marks."""


@dataclass(frozen=True, eq=False)
class StepMarks:
    """Step marks of one rank on the CPU, ascending by start."""

    number: Int64Array
    start_ns: Times
    end_ns: Times
    """Nanoseconds since the trace's origin."""
    rows: Int64Array
    """Row of each mark."""
    source: StepSource = "ProfilerStep"
    of_processes: bool = False
    """Whether several processes mark steps, as in a file that is merged from ranks."""

    def __len__(self) -> int:
        """Number of steps, counting repeated numbers."""
        return int(self.number.size)

    @property
    def distinct(self) -> tuple[int, ...]:
        """Distinct numbers of the steps, ascending."""
        return tuple(sorted(set(self.number.tolist())))

    @property
    def last_start_ns(self) -> int:
        """Start of the last mark, as in HTA; of several processes, the first that marks that step.

        A file merged from four ranks had four marks of its last step. Of three, 6.5 of 47 ms came
        before the fourth and counted as a step.
        """
        if not self.of_processes:
            return int(self.start_ns.max())
        is_last = (self.number == self.number[-1]) & (self.end_ns > self.start_ns[-1])
        return int(self.start_ns[is_last].min(initial=self.start_ns[-1]))

    def to_frame(self) -> pd.DataFrame:
        """Return the marks as pandas: ``step``, ``start_ns``, ``end_ns``."""
        return pd.DataFrame({"step": self.number, "start_ns": self.start_ns, "end_ns": self.end_ns})


def profiler_steps(events: Events) -> StepMarks:
    """List the ProfilerSteps that the CPU recorded."""
    numbers = {
        code: int(found[1])
        for code, name in enumerate(events.name.values)
        if (found := STEP_NAME.match(name))
    }
    rows = _annotations(events, numbers)
    codes = events.name.codes[rows].tolist()
    number = np.array([numbers[code] for code in codes], dtype=np.int64)
    start_ns, end_ns = events.start_ns[rows], events.ends_of(rows)
    of_processes = np.unique(events.pid[rows]).size > 1
    return StepMarks(number, start_ns, end_ns, rows, of_processes=of_processes)


def range_steps(events: Events) -> StepMarks:
    """List the ranges by which a program marks its steps: the longest series that can be steps.

    Programs that are recorded with Nsight Systems have no ProfilerSteps, and most name a range for
    each iteration, as NVIDIA's own examples do. Its numbers go up by one, and no two ranges are
    open at once, on one thread, which shows that they are no sizes of a batch (8, 16, 32), and not
    parts of other steps. Without numbers (``train_step``), they are counted from 0, as the runs of
    a program of XLA are: in a recording of JAX, five of one had 80 % of the GPU work.
    """
    rows, names = events.rows_of(Kind.ANNOTATION), events.name.values
    codes = events.name.codes[rows]
    series, number = np.full((2, len(names) + 1), NO_NUMBER)
    known: dict[tuple[str, bool], int] = {}
    for code in distinct(codes[codes >= 0]).tolist():
        name, found = names[code], NUMBERED_RANGE.search(names[code])
        if found and not WARM_UP.search(name):
            series[code] = known.setdefault((name[: found.end(1)], True), len(known))
            number[code] = int(found[2])
        elif UNNUMBERED_RANGE.search(name) or XLA_PROGRAM.search(name):
            series[code] = known.setdefault((name, False), len(known))
    of_row = series[codes]
    in_order = np.argsort(of_row, kind="stable")[np.count_nonzero(of_row == NO_NUMBER) :]
    of_each = np.split(rows[in_order], np.flatnonzero(np.diff(of_row[in_order])) + 1)
    of_each = [own for own in of_each if own.size >= FEWEST_RANGES]
    calls_ns = events.start_ns[events.rows_of(*LAUNCH_CALLS)]
    for own in sorted(of_each, key=lambda own: -int(events.duration_ns[own].sum())):
        numbers = number[events.name.codes[own]]
        numbers = np.arange(own.size) if (numbers == NO_NUMBER).all() else numbers
        marks = StepMarks(numbers, events.start_ns[own], events.ends_of(own), own, "range")
        if _count_steps(events, marks, calls_ns):
            return marks
    return StepMarks(rows[:0], rows[:0], rows[:0], rows[:0], "range")


def _count_steps(events: Events, marks: StepMarks, calls_ns: Times) -> bool:
    threads = {*zip(events.pid[marks.rows].tolist(), events.tid[marks.rows].tolist(), strict=True)}
    counts_up = (np.diff(marks.number) == 1).all()
    if len(threads) > 1 or not counts_up or (marks.start_ns[1:] < marks.end_ns[:-1]).any():
        return False
    latest = np.searchsorted(marks.start_ns, calls_ns, side="right") - 1
    inside = np.count_nonzero((latest >= 0) & (calls_ns < marks.end_ns[latest]))
    return bool(inside and inside >= LEAST_CALLS * calls_ns.size)


def request_steps(events: Events) -> StepMarks:
    """List the requests that the CPU recorded, from 0; a request inside another is part of it."""
    names = enumerate(events.name.values)
    rows = _annotations(events, [code for code, name in names if REQUEST_SPAN.fullmatch(name)])
    until_ns = np.maximum.accumulate(np.append(-1, events.ends_of(rows)))[:-1]
    rows = rows[events.start_ns[rows] >= until_ns]
    return StepMarks(
        np.arange(rows.size), events.start_ns[rows], events.ends_of(rows), rows, "request"
    )


def optimizer_steps(events: Events) -> StepMarks:
    """List the training steps between the ends of an optimizer's, from 1: the first has no start.

    Of several optimizers, the one that is called most often; a call inside another, as Accelerate's
    has, is part of it. Of 40 recordings of training, three had no other marks, and their verdicts
    were on a span with the start of the loader's workers.
    """
    names = enumerate(events.name.values)
    is_step = (OPTIMIZER_STEP.fullmatch, OPTIMIZER_RANGE.search)
    rows = _annotations(events, [code for code, name in names if any(f(name) for f in is_step)])
    threads = {*zip(events.pid[rows].tolist(), events.tid[rows].tolist(), strict=True)}
    until_ns = np.maximum.accumulate(np.append(-1, events.ends_of(rows)))[:-1]
    rows = rows[events.start_ns[rows] >= until_ns]
    codes = events.name.codes[rows]
    rows = rows[codes == np.bincount(codes).argmax()] if rows.size else rows
    if rows.size < FEWEST_UPDATES or len(threads) > 1:
        rows = rows[:0]
    ends_ns, numbers = events.ends_of(rows), np.arange(1, max(rows.size, 1))
    return StepMarks(numbers, ends_ns[:-1], ends_ns[1:], rows[1:], "optimizer")


def _annotations(events: Events, codes: Collection[int]) -> Int64Array:
    rows = events.rows_of(Kind.ANNOTATION, Kind.CPU_OP)
    return rows[np.isin(events.name.codes[rows], [*codes])]


def mark_names(events: Events, steps: StepMarks) -> Mask:
    """Mask of the names, by code, of ProfilerSteps and numbered ranges that mark steps.

    These are no part of what a program does: "98 % of it in iteration 7" says nothing. The last
    entry, for no name, is False.
    """
    names = events.name.values
    found = fitting(STEP_NAME.match, names, range(len(names)))
    if steps.source == "range":
        found[events.name.codes[steps.rows]] = True
    return found


def marks_of_steps(profiler: StepMarks, server: ServerSteps, *, is_training: bool) -> StepMarks:
    """The ProfilerSteps, or the steps of a server if these say more.

    If each ProfilerStep holds at most one span, both mark the same steps: vLLM calls
    `profiler.step()` before each. A ProfilerStep with several spans is a whole recording of a
    server, or in training with a rollout, a training step.
    """
    if not len(server) or (len(profiler) and is_training):
        return profiler
    held = np.searchsorted(profiler.start_ns, server.span_ns, side="right")
    if len(profiler.distinct) > 1 and np.unique(held).size == held.size:
        return profiler
    return StepMarks(server.number, server.start_ns, server.end_ns, server.rows, "server")


def analysed_steps(steps: StepMarks, *, include_last_profiler_step: bool) -> tuple[int, ...]:
    """Numbers of the steps that are analysed (see `rows_to_analyse`)."""
    if len(steps.distinct) < 2 or include_last_profiler_step:  # noqa: PLR2004
        return steps.distinct
    return tuple(sorted(set(steps.number[steps.start_ns < steps.last_start_ns].tolist())))


def rows_to_analyse(
    events: Events,
    launches: Int32Array,
    steps: StepMarks,
    *,
    include_last_profiler_step: bool,
) -> Mask:
    """Mask of the events that are analysed, given the row of each event's launch (`launch_rows`).

    With two or more steps, the last one is left out, as in HTA: CPU events from its start on, and
    the GPU work that they launched. GPU work launched earlier is kept, however late it runs. GPU
    work whose launch is not in the trace is kept if it starts before the last step. With
    `include_last_profiler_step`, the bound is the end of the last step instead of its start. With
    fewer steps, all events are analysed.
    """
    if len(steps.distinct) < 2:  # noqa: PLR2004
        return np.ones(len(events), dtype=bool)
    if include_last_profiler_step:
        in_time = events.start_ns <= int(steps.end_ns.max())
    else:
        in_time = events.start_ns < steps.last_start_ns
    launched = np.flatnonzero(KindSet(GPU_SIDE).among(events.kind) & (launches >= 0))
    analysed = in_time.copy()
    analysed[launched] = in_time[launches[launched]]
    return analysed
