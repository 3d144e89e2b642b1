"""What the CPU did if no GPU work was recorded: operators, CUDA calls, ranges, lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import loading_calls
from hta_widgets.analyses.memory_use import MemoryUse, may_record_memory, memory_use
from hta_widgets.analyses.time.call_sums import (
    OwnCpuTime,
    has_cpu_time,
    host_time,
    own_cpu_time,
    sums_at,
)
from hta_widgets.analyses.time.calls import Calls, calls_of, nearest_at_or_above
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.arrays import Int32Array, Int64Array, Mask
from hta_widgets.diagnosis.facts.gap_owners import is_line_of_users
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import NS_PER_MS, counted, duration, number_ranges, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.nsys.format import NSYS
from hta_widgets.trace.model.cut_forest import Thread
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.model.formats import LOST_WORK
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.facts import health_of, rank_records
from hta_widgets.trace.ranks.rank import Rank

_RECORDS_BOTH: Final = "(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] records both)"

LOADING: Final = "loading"
OPERATORS: Final = "operators"
CALLS: Final = "calls"
RANGES: Final = "ranges"
COLLECTIVES: Final = "collectives"
LINES: Final = "lines"
MEMORY: Final = "memory"

_OWNERS: Final = (OPERATORS, CALLS, RANGES, LINES)
_USES_MEMORY: Final = "allocates memory of a GPU"
_NOTHING: Final = "No operators or ranges were recorded, either."

WHAT_TO_DO: Final = {
    OPERATORS: "The operators panel lists all of them, also by shape.",
    LINES: "The flame graph shows what they call.",
    LOADING: "Load batches in worker processes (DataLoader(num_workers=…)), or make the transforms "
    "cheaper.",
    COLLECTIVES: "Compare all ranks, recorded at the same time: waiting for others looks like "
    'transfer. If the tensors are on GPUs, reduce them there: init_process_group("nccl").',
}
"""Advice for each part of the time, if there is something to do."""

LEAST_LOADING: Final = 0.01
"""Fraction of the recorded time above which loading is worth a sentence: for 71 µs in 75 ms, the
advice was to load batches in workers."""

LEAST_IN_CALLS: Final = 0.01
"""The same for CUDA calls outside operators, and for operators next to collectives: of 1.26 s of a
step, 3.96 µs were in operators."""

_COLLECTIVE: Final = re.compile(r"(?:gloo|mpi|ucc|c10d):\w+")
"""Annotations of collectives that run on the CPU, including any waiting."""

_OF_GPUS: Final = re.compile(r"(?:nccl|rccl):\w+")
"""Annotations of collectives that the CPU only launches: the job ran on GPUs."""

_OPERATOR_OF_GPUS: Final = re.compile(r"aten::_?(?:cudnn|miopen)_(?!is_acceptable)\w+")
_OPERATOR_OF_CPUS: Final = re.compile(
    r"aten::mkldnn_\w+|[\w-]+::(?:cpu_|onednn_|shm_|weight_packed_)\w+"
)

_COMPUTES: Final = re.compile(r"aten::\w*(?:conv|mm|pool|norm(?!al)|softmax|attention)")
"""Operators whose results are on the device on which they run."""

_ALLOCATES: Final = re.compile(r"(?:cuda|hip)Malloc(?!Host)|cuMemAlloc(?!Host)")

MOST_LISTED: Final = 5
NAME_WIDTH: Final = 60

_MOST_OF_A_RANK: Final = 1000
"""Most lines that each rank reports; those of a job are summed up."""


class CpuOwner(NamedTuple):
    """An operator or a line of Python, with all of its calls on all ranks."""

    name: str
    own_ns: int
    """Time in its calls, without operators, CUDA calls and ranges inside. For lines, only the time
    of other lines inside is left out; everything that they call in PyTorch and other Python
    libraries counts."""
    calls: int
    longest_ns: int
    """This time in one of the calls, the one with most of it."""

    @property
    def in_calls(self) -> str:
        """How many calls, in words, and how long they are: of 6 ms in 69, 4.94 were one wait."""
        each = f", up to {duration(self.longest_ns)} each" if self.calls > 1 else ""
        return f"{counted(self.calls, 'call')}{each}"


class Listed(NamedTuple):
    """Time in things of one kind, and which of them have most of it."""

    what: str
    ns: int
    owners: tuple[CpuOwner, ...]


@dataclass(frozen=True, kw_only=True)
class CpuWork:
    """What the CPUs did in the analysed time of some ranks; all times are sums over the ranks.

    Times are those that pass in calls, as the profiler records them, whether a core computes or the
    call waits. Calls that run at the same time on several threads add up.
    """

    ranks: int
    """Number of ranks."""
    steps: tuple[int, ...]
    """Numbers of the ProfilerSteps that count, ascending; on the CPU, each lasts from its mark to
    the next one. Empty without steps: then everything that is analysed counts."""
    step_ns: int
    """Length of the mean step of these ranks; 0 without steps."""
    operators_ns: int
    operators: tuple[CpuOwner, ...]
    """Time in operators, and those with most own time, longest first."""
    calls_ns: int
    calls: tuple[CpuOwner, ...]
    """The same for CUDA API calls outside operators."""
    ranges_ns: int
    ranges: tuple[CpuOwner, ...]
    """The same for annotated ranges (such as NVTX) outside operators, on ranks without Python
    frames."""
    lines_ns: int
    lines: tuple[CpuOwner, ...]
    """The same for functions of the user's Python code, named by their first lines, on the threads
    that run operators; 0 if no Python frames were recorded."""
    recorded_ns: int
    """Time from the first call to the end of the last one, on the thread of each rank with most
    time in operators."""
    loading_ns: int
    """Part of it in which this thread loads or prepares data."""
    collectives_ns: int
    """Time in which collectives run on any thread."""
    collective: str
    is_one_collective: bool
    """The collective with most time, and whether it is the only one."""
    analysed_ns: int
    """Time from the first call of all threads to the end of the last one."""
    memory: str
    """What fills the memory at its peak, in sentences; empty if memory was not recorded."""
    launches: int
    """Calls that launched GPU work, which is not in the traces."""
    measured: int
    """Kernels that CUPTI's range profiler measured instead of recording when they ran."""
    on_cpu: str
    """What shows that the job ran on the CPU, as a sentence without its end; empty if nothing
    does."""
    no_gpu_work: str
    """Why no cause of lost time is given, in a sentence."""

    @property
    def lists(self) -> dict[str, Listed]:
        """Where the CPUs spend most time, by part, without the parts that have none."""
        least_ns = LEAST_IN_CALLS * self.analysed_ns
        in_calls_ns = self.calls_ns * (self.calls_ns >= least_ns)
        is_alone = not self.collectives_ns
        in_operators_ns = self.operators_ns * (is_alone or self.operators_ns >= least_ns)
        # a backward pass of 34 ms was in no operator, as only its range was recorded
        in_ranges_ns = self.ranges_ns * (self.ranges_ns > self.operators_ns)
        outside = " outside operators" if self.operators_ns else ""
        every = {
            OPERATORS: Listed("operators", in_operators_ns, self.operators),
            CALLS: Listed("CUDA calls outside operators", in_calls_ns, self.calls),
            RANGES: Listed(f"annotated ranges{outside}", in_ranges_ns, self.ranges),
            LINES: Listed("Python functions", self.lines_ns, self.lines),
        }
        return {part: each for part, each in every.items() if each.ns}

    def beginning(self, part: str) -> str:
        """The total time of a part, as the start of a sentence."""
        listed = self.lists[part]
        replays = ", with the profiler's replays of kernels" if self.measured else ""
        return f"Of {duration(listed.ns)} of CPU time in {listed.what}{self.in_all}{replays}"

    @property
    def of_loading(self) -> str:
        """How much time loading data takes, in a sentence; empty if it takes none."""
        if not self.loading_ns or self.loading_ns < LEAST_LOADING * self.recorded_ns:
            return ""
        share = percent(100 * self.loading_ns / self.recorded_ns)
        return (
            f"Loading data takes {duration(self.loading_ns)} ({share}) of the "
            f"{duration(self.recorded_ns)} of the thread that runs most operators{self.in_all}."
        )

    @property
    def of_collectives(self) -> str:
        """How much time collectives on the CPU take, in a sentence; empty if there are none."""
        if not self.collectives_ns:
            return ""
        share = percent(100 * self.collectives_ns / self.analysed_ns)
        among = "all of them" if self.is_one_collective else "most of all"
        return (
            f"Collectives run on the CPU for {duration(self.collectives_ns)} ({share}) of "
            f"{duration(self.analysed_ns)}{self.in_all}, {among} {self.collective}."
        )

    @property
    def in_all(self) -> str:
        """The steps and their mean length, after a space, and how many ranks are added up.

        Empty for one rank without steps.
        """
        of = f", added up over {self.ranks} ranks" if self.ranks > 1 else ""
        if not self.steps:
            return of
        steps = "step" if len(self.steps) == 1 else "steps"
        return f" in {steps} {number_ranges(self.steps)} of {duration(self.step_ns)}{of}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything that can be said, the most important first; none if nothing was recorded."""
        return tuple(self.parts.values())

    @property
    def parts(self) -> dict[str, str]:
        """What takes the time, in sentences, longest first.

        The parts are `OPERATORS`, `CALLS`, `RANGES`, `LOADING` and `COLLECTIVES`; `LINES`, which
        contain these, and `MEMORY` follow.
        """
        lists = self.lists
        times = {part: each.ns for part, each in lists.items()}
        texts = {
            part: _largest(self.beginning(part), each.owners, each.ns)
            for part, each in lists.items()
        }
        times |= {LOADING: self.loading_ns, COLLECTIVES: self.collectives_ns}
        texts |= {LOADING: self.of_loading, COLLECTIVES: self.of_collectives}
        times[MEMORY], texts[MEMORY] = -1, self.memory
        order = sorted(times, key=lambda part: (part in (LINES, MEMORY), -times[part]))
        return {part: texts[part] for part in order if texts[part]}

    def what_to_do(self, part: str) -> str:
        """Advice on a part; empty if there is nothing to do."""
        if part == OPERATORS and self.measured:
            return "The tab CUPTI counters shows what was measured of the kernels of each operator."
        said = WHAT_TO_DO.get(part, "")
        lists_lines = part == OPERATORS and self.lines_ns
        return said.replace("shape.", "shape and by line.") if lists_lines else said

    @property
    def verdict(self) -> str:
        """Everything that can be said, and why it is not more."""
        return " ".join((self.no_gpu_work, *(self.sentences or (_NOTHING,))))

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON values, in ms."""
        times = ("recorded", "loading", "collectives", *_OWNERS)
        in_ms = {f"{each}_ms": _in_ms(getattr(self, f"{each}_ns")) for each in times}
        owners = {part: _listed(getattr(self, part)) for part in _OWNERS}
        return {"steps": [*self.steps], **in_ms, **owners, "memory": self.memory}


def cpu_work(job: Job, ranks: Iterable[int], steps: Collection[int] | None = None) -> CpuWork:
    """Sum up what the CPUs did in some ProfilerSteps.

    All analysed steps count if none are given, or if no rank has any of them. If no operator or
    range runs in them, everything that is analysed counts.
    """
    chosen = tuple(ranks)
    of_ranks = job.reduce(_steps_of, chosen)
    known = {step for each in of_ranks.values() for step in each} - {NO_STEP}
    asked = tuple(sorted(known & {*(steps or ())} or known))
    found = [*job.reduce(_of_rank, chosen, TimeSelection(asked, ()) if asked else None).values()]
    if asked and not any(each.owned_ns[OPERATORS] + each.owned_ns[RANGES] for each in found):
        asked, found = (), [*job.reduce(_of_rank, chosen, None).values()]
    owned_ns = {part: sum(each.owned_ns[part] for each in found) for part in _OWNERS}
    owned = {
        part: _longest(_together(owner for each in found for owner in each.owned[part]))
        for part in _OWNERS
    }
    analysed_ns = sum(each.analysed_ns for each in found)
    steps_of_ranks = sum(len({*asked} & {*each}) for each in of_ranks.values())
    collectives: Counter[str] = Counter()
    for each in found:
        collectives.update(each.collectives)
    health = job.reduce(health_of, chosen).values()
    memory = memory_use(job, chosen) if may_record_memory(job) else None
    devices = {*memory.peak["device_type"]} - {"CPU"} if memory else set()
    has_memory = any(not device.startswith("type") for device in devices)
    on_gpus = max((each.on_gpus for each in found), default="") or _USES_MEMORY * has_memory
    api_calls = sum(each.api_calls for each in found)
    lost = [each.lost for each in health if each.lost.launches]
    shows_gpu = on_gpus or devices or lost or job.has_gpu_work()
    shows_gpu = shows_gpu or any(each.lost_work or each.measured for each in found)
    on_cpu = "" if shows_gpu else _on_cpu(api_calls, owned[OPERATORS], memory)
    return CpuWork(
        ranks=len(chosen),
        steps=asked,
        step_ns=analysed_ns // max(steps_of_ranks, 1) if asked else 0,
        operators_ns=owned_ns[OPERATORS],
        operators=owned[OPERATORS],
        calls_ns=owned_ns[CALLS],
        calls=owned[CALLS],
        ranges_ns=owned_ns[RANGES],
        ranges=owned[RANGES],
        lines_ns=owned_ns[LINES],
        lines=owned[LINES],
        recorded_ns=sum(each.recorded_ns for each in found),
        loading_ns=sum(each.loading_ns for each in found),
        collectives_ns=sum(each.collectives_ns for each in found),
        collective=max(collectives, key=lambda name: collectives[name], default=""),
        is_one_collective=len(collectives) == 1,
        analysed_ns=analysed_ns,
        memory=memory.finding if memory else "",
        launches=sum(each.launches for each in lost),
        measured=sum(each.measured for each in found),
        on_cpu=on_cpu,
        no_gpu_work=_no_gpu_work(job, chosen, found, on_gpus, on_cpu),
    )


def _no_gpu_work(
    job: Job, ranks: tuple[int, ...], found: Sequence[_OfRank], on_gpus: str, on_cpu: str
) -> str:
    """Why there is no GPU work, in a sentence, from what shows that GPUs or only CPUs were used."""
    health = job.reduce(health_of, ranks).values()
    lost = [each.lost for each in health if each.lost.launches]
    calls = sum(each.api_calls for each in found)
    launch_none = f"no recorded call of the CUDA API ({calls:,} in all) launches any"
    if measured := sum(each.measured for each in found):
        return (
            f"CUPTI's range profiler measured {counted(measured, 'kernel')} and did not record "
            "when they ran: see the tab CUPTI counters of the dashboard. For the times of kernels, "
            "record again without profiler_metrics."
        )
    if lost:
        launches = counted(sum(each.launches for each in lost), "launch", "launches")
        why = ": the recording ended before it ran, or the"
        if all(each.waited_for for each in lost):
            why = ", though the host waited for it: the"
        return f"The GPU work of {launches} was not recorded{why} recorder could not see the GPU."
    if job.has_gpu_work():
        return "No GPU work was recorded on the selected ranks."
    if any(each.lost_work for each in found):
        records = job.reduce(rank_records, ranks).values()
        is_none = calls and not any(each.launches_kernels for each in records)
        why = f": {launch_none}; the recorder warns" if is_none else ", and the recorder warns"
        return f"No GPU work was recorded{why} that it may have lost some."
    if any(each.faults.is_cut for each in health):
        why = "the file is cut, and what a profiler writes last is the work of the GPU"
    elif on_cpu:
        return f"The job ran on the CPU: {on_cpu}."
    elif calls and on_gpus:
        why = f"the job {on_gpus}, but {launch_none}"
    elif all(job.sources[rank].format == NSYS for rank in ranks):
        why = "no CUDA calls were traced (nsys profile --trace=cuda,nvtx traces them)"
    else:
        did = f"{on_gpus}, but" if on_gpus else "ran on the CPU, or it"
        why = f"the job {did} was recorded without the GPU {_RECORDS_BOTH}"
    return f"No GPU work was recorded: {why}."


class _OfRank(NamedTuple):
    """The numbers of `CpuWork` of one rank."""

    lost_work: bool
    api_calls: int
    measured: int
    owned_ns: Mapping[str, int] = dict.fromkeys(_OWNERS, 0)
    owned: Mapping[str, tuple[CpuOwner, ...]] = dict.fromkeys(_OWNERS, ())
    recorded_ns: int = 0
    loading_ns: int = 0
    collectives_ns: int = 0
    analysed_ns: int = 0
    collectives: Mapping[str, int] = {}
    on_gpus: str = ""


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
        return _OfRank(lost_work, api_calls, measured)
    thread, time = _main_thread(calls, own), host_time(rank, selection)
    owned = _owned(rank, own, time)
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
        owned_ns={part: sum(each.own_ns for each in owners) for part, owners in owned.items()},
        owned={part: _longest(owners, _MOST_OF_A_RANK) for part, owners in owned.items()},
        recorded_ns=recorded.length,
        loading_ns=loading.length,
        lost_work=lost_work,
        api_calls=api_calls,
        measured=measured,
        collectives_ns=(_covered(calls, among) & time).length,
        analysed_ns=(Intervals.union(every.starts[:1], every.ends[-1:]) & time).length,
        collectives=collectives,
        on_gpus=_on_gpus(calls, is_annotation),
    )


def _on_gpus(calls: Calls, is_annotation: Mask) -> str:
    """What shows that the rank used a GPU; empty if nothing does."""
    if (calls.named(_OF_GPUS.match) & is_annotation).any():
        return "calls NCCL, which runs on GPUs"
    operators = np.flatnonzero(calls.named(_OPERATOR_OF_GPUS.fullmatch))
    if operators.size:
        return f"calls {calls.events.name.values[calls.name[operators[0]]]}, which runs on GPUs"
    return _USES_MEMORY * bool(calls.named(_ALLOCATES.match).any())


def _on_cpu(api_calls: int, operators: tuple[CpuOwner, ...], memory: MemoryUse | None) -> str:
    """What shows that the job ran on the CPU, if nothing shows a GPU; empty if nothing does.

    Among operators, only the one with most time counts: batches are prepared on the CPU, too.
    """
    if api_calls:
        return f"no recorded call of the CUDA API ({api_calls:,} in all) launches GPU work"
    name = operators[0].name if operators else ""
    if _OPERATOR_OF_CPUS.fullmatch(name):
        return f"{name}, which takes the most time, runs only there"
    if memory and _COMPUTES.match(name) and name in {*memory.alive_at_peak["caller"]}:
        return f"{name}, which takes the most time, allocates memory there"
    return ""


def _owned(rank: Rank, own: OwnCpuTime, time: Intervals) -> dict[str, list[CpuOwner]]:
    """What owns the time of the calls, by part."""
    calls = calls_of(rank)
    is_operator = calls.kind == Kind.CPU_OP
    is_call = calls.is_launch_call & (calls.operator[:-1] == NO_PARENT)
    is_range = (calls.kind == Kind.ANNOTATION) & (calls.operator[:-1] == NO_PARENT)
    is_range &= ~calls.named(_COLLECTIVE.match)
    is_range &= not calls.has_frames
    is_owner, begins = is_operator | is_call | is_range, has_cpu_time(rank)
    begins &= time.covers(calls.start_ns)
    of_time = nearest_at_or_above(calls.forest, is_owner)
    is_line = (calls.kind == Kind.PYTHON) & calls.named(is_line_of_users)
    return {
        OPERATORS: _by_name(calls, own, of_time, is_operator, begins),
        CALLS: _by_name(calls, own, of_time, is_call, begins),
        RANGES: _by_name(calls, own, of_time, is_range, begins),
        LINES: _by_name(
            calls,
            _of_threads_with_operators(calls, own),
            nearest_at_or_above(calls.forest, is_line),
            is_line,
            begins,
        ),
    }


def _of_threads_with_operators(calls: Calls, own: OwnCpuTime) -> OwnCpuTime:
    """The time of threads that run operators, if any thread does.

    In a notebook, one of Jupyter's own threads had more time than the loop: 1.3 s in pyzmq.
    """
    thread = calls.thread_of(own.place)
    runs = thread[calls.operator[own.place] != NO_PARENT]
    counts = np.isin(thread, runs) if runs.size else np.ones(thread.size, dtype=np.bool_)
    return OwnCpuTime(own.place[counts], own.ns[counts])


def _by_name(
    calls: Calls, own: OwnCpuTime, owner: Int32Array, chosen: Mask, begins: Mask
) -> list[CpuOwner]:
    """The time of calls whose owner is chosen, and how many chosen ones start, by name."""
    names, is_of_one = calls.events.name.values, np.append(chosen, False)[owner[own.place]]
    place = owner[own.place[is_of_one]]
    each = grouped(place)
    each_ns, code = each.reduce(np.add, own.ns[is_of_one]), calls.name[place[each.first]]
    own_ns, longest_ns = sums_at(code, each_ns, len(names)), np.zeros(len(names), np.int64)
    np.maximum.at(longest_ns, code, each_ns)
    count = np.bincount(calls.name[chosen & begins], minlength=len(names))
    # a script's own call started before the recording: it still counts as one
    count = np.maximum(count, own_ns > 0)
    return [
        CpuOwner(names[code], int(own_ns[code]), int(count[code]), int(longest_ns[code]))
        for code in np.flatnonzero(own_ns).tolist()
    ]


def _main_thread(calls: Calls, own: OwnCpuTime) -> Thread:
    """The thread with most time in operators or, without operators, in any calls."""
    own_ns = np.where(calls.operator[own.place] != NO_PARENT, own.ns, 0)
    own_ns = own_ns if own_ns.any() else own.ns
    sums = sums_at(calls.thread_of(own.place), own_ns, len(calls.threads))
    return calls.threads[int(sums.argmax())]


def _covered(calls: Calls, places: Int64Array) -> Intervals:
    return Intervals.union(calls.start_ns[places], calls.forest.cut_end_ns[places])


def _together(owners: Iterable[CpuOwner]) -> list[CpuOwner]:
    sums: dict[str, CpuOwner] = {}
    for name, own_ns, calls, longest_ns in owners:
        _, before_ns, before, longest_before_ns = sums.get(name, CpuOwner(name, 0, 0, 0))
        longest = max(longest_before_ns, longest_ns)
        sums[name] = CpuOwner(name, before_ns + own_ns, before + calls, longest)
    return [*sums.values()]


def _longest(owners: Iterable[CpuOwner], count: int = MOST_LISTED) -> tuple[CpuOwner, ...]:
    return tuple(sorted(owners, key=lambda owner: (-owner.own_ns, owner.name))[:count])


def _largest(whole: str, owners: tuple[CpuOwner, ...], whole_ns: int) -> str:
    most = owners[0]
    return (
        f"{whole}, {short_name(most.name, NAME_WIDTH)} takes the most: {duration(most.own_ns)} "
        f"({percent(100 * most.own_ns / whole_ns)}) in {most.in_calls}."
    )


def _listed(owners: tuple[CpuOwner, ...]) -> list[Mapping[str, Any]]:
    return [
        {
            "name": each.name,
            "own_ms": _in_ms(each.own_ns),
            "calls": each.calls,
            "longest_ms": _in_ms(each.longest_ns),
        }
        for each in owners
    ]


def _in_ms(ns: int) -> float:
    return round(ns / NS_PER_MS, 6)
