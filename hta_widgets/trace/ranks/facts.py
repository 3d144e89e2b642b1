"""Small facts that a job needs to know about each rank, whatever is analysed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.quantities import number_ranges
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.details import may_have_memory
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.model.formats import RANK_LIMIT, UNPROFILED_STEP, Recorded
from hta_widgets.trace.model.health.rank_health import RankHealth
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.model.questions import Question
from hta_widgets.trace.ranks.clock import origin_of
from hta_widgets.trace.ranks.identity import identity_of
from hta_widgets.trace.ranks.rank import Lacks, Rank
from hta_widgets.trace.ranks.recorded_kind import recorded_kind

MOST_RANKS: Final = 2**20
"""Most ranks that a trace may state; a larger number is an error in the trace."""


LEAST_COPYING: Final = 0.01
"""Share of the recorded time that copies must take in a program that only copies: a model whose
kernels were lost had one fill of 1.5 µs in 0.5 s, and was reported as bound by copying."""

_GRAPH_LAUNCH: Final = re.compile("GraphLaunch")
_LAUNCHES: Final = re.compile("Launch(?:Cooperative)?Kernel|GraphLaunch")


class RankRecords(NamedTuple):
    """What one rank's trace holds."""

    gpu_work: bool
    """Any GPU work."""
    kernel_work: bool
    """Kernels or graphs; or copies that take `LEAST_COPYING` of the recorded time, as in a program
    that only copies."""
    calls: bool
    """CUDA API calls of any kind."""
    launches: bool
    """Calls that launch kernels, recorded or not; or any calls if only copies ran: a program with
    617 calls was reported as having none recorded."""
    launches_kernels: bool
    """Calls that launch kernels or graphs."""
    waited_for: bool
    """Launches without GPU work, although the host waited for it."""
    last_work: bool
    """The work of the last launches; a few may not have run when the recording ended."""
    measured: bool
    """Kernels whose counters CUPTI's range profiler read, instead of recording when they ran."""
    waits: bool
    """Calls that wait for GPU work; False only if the host seems to wait without such calls."""
    kernels: bool
    """Single kernels, not only the time in which any kernel runs."""
    host_code: bool
    """Operators or Python functions. If only graphs are launched, the annotations that PyTorch's
    profiler records with them are enough: a loop that replays a graph runs no operator."""
    os_calls: bool
    """Operating-system calls between the CUDA calls of their thread."""
    frames: bool
    memory: bool
    """Python functions, and allocations."""
    communication: bool
    """Communication kernels."""
    collectives: bool
    """The collective, group and size of each communication kernel."""


def notices_of(rank: Rank) -> tuple[Notice, ...]:
    """What was left out or not matched on the rank."""
    return rank.notices


def step_names(rank: Rank) -> tuple[str, ...]:
    """Names of server steps that are counted from 0; empty if there are none."""
    server, names = rank.server_steps, rank.trace.events.name
    if rank.steps.source != "server" or server.spans[0].number is not None:
        return ()
    return tuple(names.values[code] for code in names.codes[server.rows].tolist())


def health_of(rank: Rank) -> RankHealth:
    """What the recorder of the rank got wrong."""
    return rank.health


def lacks_of(rank: Rank) -> Lacks:
    """What the rank lacks because its format does."""
    return rank.lacks


def has_gpu_work(rank: Rank) -> bool:
    """Whether any GPU work of the rank is analysed."""
    return len(rank.gpu_work) > 0


def may_communicate(rank: Rank) -> bool:
    """Whether any kernel communicates, or is in a graph that was recorded as a whole."""
    types = (KernelType.COMMUNICATION, KernelType.CUDA_GRAPH)
    return bool(np.isin(rank.gpu_work.type, types).any())


def rank_records(rank: Rank) -> RankRecords:
    """Look up what a rank's trace holds."""
    events = rank.trace.events
    fields = events.side.get("collectives")
    return RankRecords(
        gpu_work=len(rank.gpu_work) > 0,
        kernel_work=_has_kernel_work(rank),
        calls=bool(events.rows_of(*LAUNCH_CALLS).size),
        launches=rank.health.lost.launches > 0 or _only_copies(rank),
        launches_kernels=bool(events.named(events.rows_of(*LAUNCH_CALLS), _LAUNCHES).any()),
        waited_for=rank.health.lost.waited_for,
        last_work=not rank.health.lacks_end,
        measured=bool(events.rows_of(Kind.PROFILER_RANGE).size),
        waits=not rank.health.waits.matter,
        kernels=Recorded.KERNELS not in rank.lacks.missing,
        host_code=bool(events.rows_of(Kind.CPU_OP, Kind.PYTHON).size) or _only_replays(rank),
        os_calls=bool(events.rows_of(Kind.OS_CALL).size),
        frames=bool((events.kind == Kind.PYTHON).any()),
        memory=may_have_memory(events),
        communication=bool((rank.gpu_work.type == KernelType.COMMUNICATION).any()),
        collectives=fields is not None and bool(fields.rows.size),
    )


def _only_copies(rank: Rank) -> bool:
    work, calls = rank.gpu_work, rank.trace.events.rows_of(*LAUNCH_CALLS)
    return bool(calls.size and len(work) and (work.type == KernelType.MEMORY).all())


def _has_kernel_work(rank: Rank) -> bool:
    work, events = rank.gpu_work, rank.trace.events
    if (work.type != KernelType.MEMORY).any():
        return True
    recorded_ns = int(events.ends_of(np.arange(len(events))).max(initial=0))
    return work.busy.length >= LEAST_COPYING * (recorded_ns - int(events.start_ns.min(initial=0)))


def _only_replays(rank: Rank) -> bool:
    """Whether the CPU was recorded and launches only graphs, so that no operators are missing."""
    if Recorded.OPERATORS in rank.format.lacks:  # annotations exist without operators
        return False
    events, launches = rank.trace.events, rank.gpu_work.launch
    launches = launches[launches >= 0]
    if not (launches.size and events.rows_of(Kind.ANNOTATION).size):
        return False
    return bool(events.named(launches, _GRAPH_LAUNCH).all())


def step_source_of(rank: Rank) -> str:
    """What marks the steps of the rank: one of `StepSource`, or ``none``."""
    return rank.steps.source if len(rank.steps) else "none"


def world_size_of(rank: Rank) -> int:
    """Number of ranks of the traced job; 0 if the trace does not say so."""
    info = rank.trace.metadata.get("distributedInfo")
    stated = info.get("world_size") if isinstance(info, Mapping) else None
    return max(whole_number(stated, RANK_LIMIT) or 0, 0)


def unprofiled_step_ns(rank: Rank) -> int:
    """Mean length (ns) of a step before the profiler ran; 0 if the trace does not say so."""
    return whole_number(rank.trace.metadata.get(UNPROFILED_STEP)) or 0


def unprofiled_among(stated: Mapping[int, int]) -> int:
    """Median over the ranks of what their traces state (see `unprofiled_step_ns`), or 0."""
    return round(median([each for each in stated.values() if each] or [0]))


def world_size_among(world_sizes: Mapping[int, int]) -> int:
    """Number of ranks of the job that most traces state (see `world_size_of`), or 0."""
    stated = Counter(size for size in world_sizes.values() if size)
    return max(stated, key=lambda size: (stated[size], size), default=0)


def missing_ranks(world_sizes: Mapping[int, int], recorded: Iterable[int]) -> list[str]:
    """Notice about the ranks of a traced job that have no trace.

    The sizes (see `world_size_of`) are those of all opened ranks; `recorded` are all ranks with a
    trace, opened or not.
    """
    size = world_size_among(world_sizes)
    missing = sorted({*range(size)} - {*recorded}) if size <= MOST_RANKS else []
    if not missing or max(world_sizes) >= size:
        return []
    verb = "rank {} is" if len(missing) == 1 else "ranks {} are"
    are_missing = verb.format(number_ranges(missing))
    return [f"{are_missing} missing: the traces come from a job with {size:,} ranks"]


ALWAYS_ASKED: Final = (
    Question(origin_of),
    Question(notices_of),
    Question(health_of),
    Question(lacks_of),
    Question(has_gpu_work),
    Question(step_source_of),
    Question(world_size_of),
    Question(unprofiled_step_ns),
    Question(identity_of),
    Question(recorded_kind),
)
"""Asked together with the first question about a rank, so that it is not loaded again for them."""
