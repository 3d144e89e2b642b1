"""What the CPU did where no GPU work was recorded: operators, loading, collectives, lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import loading_calls
from hta_widgets.analyses.memory_use import may_record_memory, memory_use
from hta_widgets.analyses.operators import operators
from hta_widgets.analyses.time.call_sums import OwnCpuTime, host_time, own_cpu_time, sums_at
from hta_widgets.analyses.time.calls import Calls, calls_of, nearest_at_or_above
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.facts.gap_owners import is_line_of_users
from hta_widgets.errors import number_ranges
from hta_widgets.intervals import Intervals
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import NS_PER_MS, counted, duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.cut_forest import Thread
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.model.formats import LOST_WORK
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.facts import health_of
from hta_widgets.trace.ranks.rank import Rank

_RECORDS_BOTH: Final = "(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] records both)"
NO_GPU_WORK: Final = (
    "No GPU work was recorded: the job ran on the CPU, or it was recorded without the GPU "
    f"{_RECORDS_BOTH}."
)

LOADING: Final = "loading"
OPERATORS: Final = "operators"
COLLECTIVES: Final = "collectives"
LINES: Final = "lines"
MEMORY: Final = "memory"

WHAT_TO_DO: Final = {
    OPERATORS: "The panel of the operators lists all of them, also by shape and by line.",
    LINES: "The flame graph shows what they call.",
    LOADING: "Load batches in worker processes (DataLoader(num_workers=…)), or make the transforms "
    "cheaper.",
    COLLECTIVES: "Start them with async_op=True and compute meanwhile, or send fewer, larger ones "
    "(DistributedDataParallel(model, bucket_cap_mb=100)).",
}
"""About each part of the time, where there is something to do."""

LEAST_LOADING: Final = 0.01
"""Part of the recorded time from which loading is worth a sentence: of 71 µs in 75 ms, the advice
was to load batches in workers."""

_COLLECTIVE: Final = re.compile(r"(?:gloo|mpi|ucc|c10d):\w+")
"""Annotations of collectives that run on the CPU, whatever waits in them."""

_OF_GPUS: Final = re.compile(r"(?:nccl|rccl):\w+")
"""Those of collectives that the CPU only launches: of a job that ran on GPUs."""

MOST_LISTED: Final = 5
NAME_WIDTH: Final = 60

_MOST_OF_A_RANK: Final = 1000
"""Lines that each rank tells; all of a job are summed up."""


class CpuOwner(NamedTuple):
    """An operator or a line of Python, with all of its calls on all ranks.

    Attributes
    ----------
    name : str
    own_ns : int
        Time in its calls: of operators without the operators inside, of lines without the lines
        inside, but with all that they call in PyTorch and other libraries of Python itself.
    calls : int
    """

    name: str
    own_ns: int
    calls: int


@dataclass(frozen=True, kw_only=True)
class CpuWork:
    """What the CPUs did in the analysed time of some ranks; all times are sums over the ranks.

    Times are those that pass in calls, as the profiler records them, whether a core computes or the
    call waits. Calls on several threads at the same time add up.

    Attributes
    ----------
    steps : tuple of int
        Numbers of the ProfilerSteps that count, ascending; on the CPU, each lasts from its mark to
        the next one. Empty without any: then all that is analysed counts.
    operators_ns : int
        Time in operators.
    operators : tuple of CpuOwner
        Those with most time of their own, longest first.
    lines_ns : int
        Time in functions of the user's Python code, which are named by their first lines, of the
        threads that run operators; 0 where no Python frames were recorded.
    lines : tuple of CpuOwner
        Those with most time of their own, longest first.
    recorded_ns : int
        Time from the first call to the end of the last one, of the thread of each rank with most
        time in operators.
    loading_ns : int
        Part of it in which this thread loads data, or prepares it.
    of_job : bool
        Whether no rank of the job has GPU work, or only none of these.
    launches : int
        Calls that launched GPU work, which is not in the traces.
    uses_nccl : bool
        Whether collectives of GPUs were called.
    measured : int
        Kernels that CUPTI's range profiler measured, instead of recording when they ran.
    lost_work : bool
        Whether the recorder says that it may have lost GPU work.
    api_calls : int
        Calls of the CUDA API: where there are some, the recorder saw that nothing was launched.
    collectives_ns : int
        Time in which collectives run, on any thread.
    analysed_ns : int
        Time from the first call of all threads to the end of the last one.
    collective : str
        The one with most time.
    step_ns : int
        Length of the mean step of these ranks; 0 without steps.
    memory : str
        What fills the memory at its peak, in sentences; empty if it was not recorded.
    """

    steps: tuple[int, ...]
    operators_ns: int
    operators: tuple[CpuOwner, ...]
    lines_ns: int
    lines: tuple[CpuOwner, ...]
    recorded_ns: int
    loading_ns: int
    memory: str
    of_job: bool
    launches: int = 0
    measured: int = 0
    uses_nccl: bool = False
    lost_work: bool = False
    api_calls: int = 0
    collectives_ns: int = 0
    analysed_ns: int = 0
    collective: str = ""
    step_ns: int = 0

    @property
    def all_operators(self) -> str:
        """The time in operators, as the beginning of a sentence."""
        return f"Of {duration(self.operators_ns)} of CPU time in operators{self.in_steps}"

    @property
    def all_lines(self) -> str:
        """The time in lines of Python, as the beginning of a sentence."""
        return f"Of {duration(self.lines_ns)} of CPU time in Python functions{self.in_steps}"

    @property
    def of_operators(self) -> str:
        """Which operator takes most time, in a sentence; empty without operators."""
        return _largest(self.all_operators, self.operators, self.operators_ns)

    @property
    def of_lines(self) -> str:
        """Which line of Python takes most time, in a sentence; empty without lines."""
        return _largest(self.all_lines, self.lines, self.lines_ns)

    @property
    def of_loading(self) -> str:
        """How much time the loading of data takes, in a sentence; empty if it takes none."""
        if not self.loading_ns or self.loading_ns < LEAST_LOADING * self.recorded_ns:
            return ""
        share = percent(100 * self.loading_ns / self.recorded_ns)
        return (
            f"Loading data takes {duration(self.loading_ns)} ({share}) of the "
            f"{duration(self.recorded_ns)} of the thread that runs most operators{self.in_steps}."
        )

    @property
    def of_collectives(self) -> str:
        """How much time collectives on the CPU take, in a sentence; empty if there are none."""
        if not self.collectives_ns:
            return ""
        share = percent(100 * self.collectives_ns / self.analysed_ns)
        return (
            f"Collectives run on the CPU for {duration(self.collectives_ns)} ({share}) of "
            f"{duration(self.analysed_ns)}{self.in_steps}, most of all {self.collective}."
        )

    @property
    def in_steps(self) -> str:
        """The steps in words, with a space before them; empty without any."""
        if not self.steps:
            return ""
        return f" in {'step' if len(self.steps) == 1 else 'steps'} {number_ranges(self.steps)}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that can be said, the most important first; none where nothing was recorded."""
        return tuple(self.parts.values())

    @property
    def parts(self) -> dict[str, str]:
        """What takes the time, in sentences, those with most time first.

        They are `OPERATORS`, `LOADING` and `COLLECTIVES`; `LINES`, which hold these, and `MEMORY`
        follow.
        """
        of_time = (
            (self.operators_ns, OPERATORS, self.of_operators),
            (self.loading_ns, LOADING, self.of_loading),
            (self.collectives_ns, COLLECTIVES, self.of_collectives),
        )
        said = {name: text for _, name, text in sorted(of_time, key=lambda each: -each[0])}
        said |= {LINES: self.of_lines, MEMORY: self.memory}
        return {name: text for name, text in said.items() if text}

    @property
    def no_gpu_work(self) -> str:
        """Why there is no cause of lost time, in a sentence."""
        if self.measured:
            return (
                f"CUPTI's range profiler measured {counted(self.measured, 'kernel')} and did not "
                "record when they ran: see the tab CUPTI counters of the dashboard. For the times "
                "of kernels, record again without profiler_metrics."
            )
        if self.launches:
            return (
                f"The GPU work of {counted(self.launches, 'launch', 'launches')} was not recorded: "
                "the recording ended before it ran, or the recorder could not see the GPU."
            )
        if self.uses_nccl and self.of_job:
            return (
                "No GPU work was recorded: the job calls NCCL, which runs on GPUs, but was "
                f"recorded without the GPU {_RECORDS_BOTH}."
            )
        if self.lost_work and self.of_job:
            return "No GPU work was recorded, and the recorder warns that it may have lost some."
        if self.api_calls and self.of_job:
            return (
                f"The job ran on the CPU: no recorded call of the CUDA API ({self.api_calls:,} in "
                "all) launches GPU work."
            )
        return NO_GPU_WORK if self.of_job else "No GPU work was recorded on the selected ranks."

    @property
    def verdict(self) -> str:
        """All that can be said, and why it is not more."""
        return " ".join((self.no_gpu_work, *(self.sentences or ("No operators were, either.",))))

    def to_dict(self) -> dict[str, Any]:
        """The numbers as values of JSON, in ms."""
        return {
            "steps": [*self.steps],
            "recorded_ms": _in_ms(self.recorded_ns),
            "loading_ms": _in_ms(self.loading_ns),
            "collectives_ms": _in_ms(self.collectives_ns),
            "operators_ms": _in_ms(self.operators_ns),
            "operators": _listed(self.operators),
            "lines_ms": _in_ms(self.lines_ns),
            "lines": _listed(self.lines),
            "memory": self.memory,
        }


def cpu_work(job: Job, ranks: Iterable[int], steps: Collection[int] | None = None) -> CpuWork:
    """Sum up what the CPUs did in some ProfilerSteps.

    All analysed ones count when none are given, or if no rank has any of them. Where no operator
    runs in them, all that is analysed counts.
    """
    chosen = tuple(ranks)
    of_ranks = job.reduce(_steps_of, chosen)
    known = {step for each in of_ranks.values() for step in each} - {NO_STEP}
    asked = tuple(sorted(known & {*(steps or ())} or known))
    table = operators(job, chosen, steps=asked).operators
    if asked and table.empty:
        asked, table = (), operators(job, chosen).operators
    by_name = table.groupby("operator", sort=False)[["cpu_self_ns", "calls"]].sum()
    found = job.reduce(_of_rank, chosen, TimeSelection(asked, ()) if asked else None).values()
    analysed_ns = sum(each.analysed_ns for each in found)
    steps_of_ranks = sum(len({*asked} & {*each}) for each in of_ranks.values())
    collectives: Counter[str] = Counter()
    for each in found:
        collectives.update(each.collectives)
    return CpuWork(
        steps=asked,
        operators_ns=int(table["cpu_self_ns"].sum()),
        operators=_longest(
            CpuOwner(str(name), int(own_ns), int(calls))
            for name, own_ns, calls in by_name.itertuples(name=None)
        ),
        lines_ns=sum(each.lines_ns for each in found),
        lines=_longest(_together(line for each in found for line in each.lines)),
        recorded_ns=sum(each.recorded_ns for each in found),
        loading_ns=sum(each.loading_ns for each in found),
        collectives_ns=sum(each.collectives_ns for each in found),
        analysed_ns=analysed_ns,
        step_ns=analysed_ns // max(steps_of_ranks, 1) if asked else 0,
        collective=max(collectives, key=lambda name: collectives[name], default=""),
        of_job=not job.has_gpu_work(),
        uses_nccl=any(each.uses_nccl for each in found),
        lost_work=any(each.lost_work for each in found),
        api_calls=sum(each.api_calls for each in found),
        measured=sum(each.measured for each in found),
        launches=sum(each.lost.launches for each in job.reduce(health_of, chosen).values()),
        memory=memory_use(job, chosen).finding if may_record_memory(job) else "",
    )


class _OfRank(NamedTuple):
    """The numbers of `CpuWork` that are not in the table of operators, of one rank."""

    lines_ns: int
    lines: tuple[CpuOwner, ...]
    recorded_ns: int
    loading_ns: int
    lost_work: bool
    api_calls: int
    measured: int
    collectives_ns: int
    analysed_ns: int
    collectives: Mapping[str, int]
    uses_nccl: bool


def _steps_of(rank: Rank) -> tuple[int, ...]:
    steps: Int64Array = window_of(rank).steps
    return tuple(steps.tolist())


def _of_rank(rank: Rank, selection: TimeSelection | None) -> _OfRank:
    calls, own = calls_of(rank), own_cpu_time(rank, selection)
    lost_work = LOST_WORK in rank.trace.metadata
    api_calls, measured = (
        rank.trace.events.rows_of(*kinds).size for kinds in (LAUNCH_CALLS, (Kind.PROFILER_RANGE,))
    )
    if not calls.threads:
        return _OfRank(0, (), 0, 0, lost_work, api_calls, measured, 0, 0, {}, False)
    thread, time = _main_thread(calls, own), host_time(rank, selection)
    lines = _lines(calls, own, time)
    of_thread = np.arange(thread.first, thread.last)
    covered = _covered(calls, of_thread)
    recorded = Intervals.union(covered.starts[:1], covered.ends[-1:]) & time
    loading = _covered(calls, of_thread[loading_calls(rank)[of_thread]]) & recorded
    names, every = calls.events.name.values, _covered(calls, np.arange(calls.start_ns.size))
    is_annotation = calls.kind == Kind.ANNOTATION
    among = np.flatnonzero(calls.named(_COLLECTIVE.match) & is_annotation)
    collectives = {
        names[code]: (_covered(calls, among[calls.name[among] == code]) & time).length
        for code in np.unique(calls.name[among]).tolist()
    }
    return _OfRank(
        lines_ns=sum(line.own_ns for line in lines),
        lines=_longest(lines, _MOST_OF_A_RANK),
        recorded_ns=recorded.length,
        loading_ns=loading.length,
        lost_work=lost_work,
        api_calls=api_calls,
        measured=measured,
        collectives_ns=(_covered(calls, among) & time).length,
        analysed_ns=(Intervals.union(every.starts[:1], every.ends[-1:]) & time).length,
        collectives=collectives,
        uses_nccl=bool((calls.named(_OF_GPUS.match) & is_annotation).any()),
    )


def _lines(calls: Calls, own: OwnCpuTime, time: Intervals) -> tuple[CpuOwner, ...]:
    """The lines of threads that run operators, if any does.

    In a notebook, a thread of Jupyter's own had more time than the loop: 1.3 s in pyzmq.
    """
    is_line = (calls.kind == Kind.PYTHON) & calls.named(is_line_of_users)
    names, thread = calls.events.name.values, calls.thread_of(own.place)
    runs = thread[calls.operator[own.place] != NO_PARENT]
    counts = np.isin(thread, runs) if runs.size else np.ones(thread.size, dtype=np.bool_)
    line = np.append(nearest_at_or_above(calls.forest, is_line), NO_PARENT)[own.place[counts]]
    own_ns = sums_at(np.append(calls.name, NO_PARENT)[line], own.ns[counts], len(names))
    begins = calls.name[is_line & time.covers(calls.start_ns)]
    # that of a script began before the recording: it is one call all the same
    count = np.maximum(np.bincount(begins, minlength=len(names)), own_ns > 0)
    return tuple(
        CpuOwner(names[code], int(own_ns[code]), int(count[code]))
        for code in np.flatnonzero(own_ns).tolist()
    )


def _main_thread(calls: Calls, own: OwnCpuTime) -> Thread:
    """The thread with most time in operators, or else in any calls."""
    own_ns = np.where(calls.operator[own.place] != NO_PARENT, own.ns, 0)
    own_ns = own_ns if own_ns.any() else own.ns
    sums = sums_at(calls.thread_of(own.place), own_ns, len(calls.threads))
    return calls.threads[int(sums.argmax())]


def _covered(calls: Calls, places: Int64Array) -> Intervals:
    return Intervals.union(calls.start_ns[places], calls.forest.cut_end_ns[places])


def _together(owners: Iterable[CpuOwner]) -> list[CpuOwner]:
    sums: dict[str, CpuOwner] = {}
    for name, own_ns, calls in owners:
        before = sums.get(name, CpuOwner(name, 0, 0))
        sums[name] = CpuOwner(name, before.own_ns + own_ns, before.calls + calls)
    return [*sums.values()]


def _longest(owners: Iterable[CpuOwner], count: int = MOST_LISTED) -> tuple[CpuOwner, ...]:
    return tuple(sorted(owners, key=lambda owner: (-owner.own_ns, owner.name))[:count])


def _largest(whole: str, owners: tuple[CpuOwner, ...], whole_ns: int) -> str:
    if not whole_ns:
        return ""
    name, own_ns, calls = owners[0]
    return (
        f"{whole}, {short_name(name, NAME_WIDTH)} takes the most: {duration(own_ns)} "
        f"({percent(100 * own_ns / whole_ns)}) in {counted(calls, 'call')}."
    )


def _listed(owners: tuple[CpuOwner, ...]) -> list[Mapping[str, Any]]:
    return [
        {"name": name, "own_ms": _in_ms(own_ns), "calls": calls} for name, own_ns, calls in owners
    ]


def _in_ms(ns: int) -> float:
    return round(ns / NS_PER_MS, 6)
