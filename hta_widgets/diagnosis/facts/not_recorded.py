"""What the traces lack that a diagnosis needs, and how to record it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.quantities import capitalised, named_numbers, number_ranges
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.facts import RankRecords, rank_records
from hta_widgets.trace.ranks.rank import Rank


class NotRecorded(NamedTuple):
    """Something that the traces lack."""

    what: str
    untold: str
    """What a diagnosis cannot tell without it."""
    how: str
    """How to record it, or to open it."""
    is_recorded: bool = False
    """Whether there is a trace with it, which was not opened."""

    @property
    def lack(self) -> str:
        """What is missing, in words."""
        return f"{self.what} not {'opened' if self.is_recorded else 'recorded'}"

    @property
    def sentence(self) -> str:
        """What is missing, what cannot be told without it, and how to record it."""
        return f"{self.lack}: {self.untold}. {self.how}."

    @property
    def in_nsys(self) -> NotRecorded:
        """The same, but saying how to record it with Nsight Systems, not PyTorch's profiler."""
        return self._replace(how=_IN_NSYS.get(self.how, self.how))


_KERNELS: Final = NotRecorded(
    "Kernels are",
    "no cause can be told",
    "Open the export of Nsight Systems that this table was made from (nsys export --type sqlite)",
)
UNTOLD_OF_GPU: Final = "what the GPU waits for cannot be told"
_GPU_WORK: Final = NotRecorded(
    "GPU work is",
    UNTOLD_OF_GPU,
    "Record activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
)
_UNSEEN_WORK: Final = _GPU_WORK._replace(
    what="Launched GPU work is",
    how="Let no other profiler hold the GPU; some drivers, as under WSL, let none see it",
)
_LAUNCHED_WORK: Final = _UNSEEN_WORK._replace(
    how="Wait for the GPU before the recording ends (torch.cuda.synchronize(), in C++ "
    "cudaDeviceSynchronize()); if kernels are still missing, another profiler holds the GPU, or "
    "the driver does not let this one see it, as some do not under WSL",
)
_LAST_WORK: Final = _GPU_WORK._replace(
    what="GPU work of the last launches is",
    untold="the verdict is on what ran before the recording ended",
    how="Wait for the GPU before the profiler stops, which itself waits for the current GPU only "
    "(torch.cuda.synchronize(device), in C++ cudaSetDevice(device) and cudaDeviceSynchronize())",
)
_LOST_KERNELS: Final = _LAUNCHED_WORK._replace(what="Kernels are", untold=_KERNELS.untold)
_NO_LAUNCHES: Final = _GPU_WORK._replace(
    untold="no recorded call launches any",
    how="Check that the program reached its GPU work, and that the process that launches it was "
    "recorded",
)
_NO_KERNEL_LAUNCHES: Final = _NO_LAUNCHES._replace(what="Kernels are")
"""Another profiler was blamed for a program that made a context, 16 streams and a memset, and
launched nothing."""
_MOST_KERNELS: Final = _LOST_KERNELS._replace(what="Most kernels that were launched are")
_MEASURED_WORK: Final = _GPU_WORK._replace(
    what="Times of kernels are", how="Record again without profiler_metrics"
)
_CALLS: Final = NotRecorded(
    "Calls of the CUDA API are",
    UNTOLD_OF_GPU,
    _GPU_WORK.how,
)
_WAITS: Final = _CALLS._replace(
    what="Calls that wait for the GPU are",
    untold="whether the host or the GPU is the bottleneck cannot be told",
    how="Record all calls of the CUDA API, and keep them in the export",
)
_FRAMES: Final = NotRecorded(
    "Python frames are", "which lines take the time cannot be told", "Record with_stack=True"
)
_MEMORY: Final = NotRecorded(
    "Memory events are", "what fills the memory cannot be told", "Record profile_memory=True"
)
_SHAPES: Final = NotRecorded(
    "Shapes of inputs are",
    "which products are slow for their dimensions cannot be told",
    "Record record_shapes=True",
)
_IN_COMMON: Final = " that all ranks have in common"
_STEPS: Final = NotRecorded(
    f"Step marks{_IN_COMMON} are",
    "costs are those of the GPU span, and no step can be compared with the others",
    "Mark them with profiler.step()",
)
_SERVER_STEPS: Final = _STEPS._replace(
    what=f"Steps{_IN_COMMON} are",
    how="Record all ranks of the server at the same time",
)
_HOST_CODE: Final = NotRecorded(
    "Operators are",
    "pauses of the host cannot be told from work that it does not launch",
    "Record ProfilerActivity.CPU",
)
_AND_OPERATORS: Final = " and ProfilerActivity.CPU"
_COLLECTIVES: Final = NotRecorded(
    "Process groups and message sizes are",
    "slow links, uneven experts and pipeline bubbles cannot be told",
    f"Record with PyTorch 2.4 or newer{_AND_OPERATORS}",
)
_SERVER_COLLECTIVES: Final = _COLLECTIVES._replace(
    how="Record steps without CUDA graphs (vLLM: --enforce-eager, SGLang: --disable-cuda-graph), "
    f"with PyTorch 2.4 or newer{_AND_OPERATORS}: kernels of a replayed graph have neither",
)
_IN_NSYS: Final = {
    _GPU_WORK.how: "Record with nsys profile --trace=cuda,nvtx",
    _STEPS.how: "Mark them with NVTX ranges: iteration 1, iteration 2 and so on",
    _HOST_CODE.how: "Record an NVTX range for each operator, in PyTorch with "
    "torch.autograd.profiler.emit_nvtx()",
    _LAST_WORK.how: "Wait for the GPU before the recording ends (torch.cuda.synchronize(), in C++ "
    "cudaDeviceSynchronize())",
    **dict.fromkeys(
        (_COLLECTIVES.how, _COLLECTIVES.how.replace(_AND_OPERATORS, "")),
        "Record with PyTorch's profiler, of 2.4 or newer",
    ),
}

_OTHER_RANKS: Final = "waiting and transfer cannot be told apart"


def not_recorded(
    records: Mapping[int, RankRecords],
    *,
    world_size: int,
    with_steps: bool,
    left_out: Sequence[int] = (),
    not_opened: Sequence[int] = (),
    serves: bool = False,
    lost_most: bool = False,
) -> tuple[NotRecorded, ...]:
    """List what the traces of a job of some size (0 if not recorded) lack.

    Ranks that are left out have GPU work, but share no time with the others, whether these have
    steps in common or not. Nobody marks the steps of a server.
    """
    steps = _SERVER_STEPS if serves else _STEPS
    found = [*_gpu_work_of(records)]
    if len(_ranks(records, kernels=True, gpu_work=False)) == len(records):
        return (*found, *_of_cpus(records))
    if lacking := _ranks(records, kernels=False):
        found.append(_on(_KERNELS, lacking, len(records)))
        if len(lacking) == len(records):
            return tuple(found)
    if lost_most or len(_ranks(records, kernel_work=False)) == len(records):
        return (*found, _MOST_KERNELS if lost_most else _no_kernels(records))
    found += _calls_of(records)
    if left_out:
        found.append(_not_compared(left_out, steps.how))
    if not with_steps:
        what = steps.what if len(records) > 1 else steps.what.replace(_IN_COMMON, "")
        found.append(steps._replace(what=what))
    if lacking := _ranks(records, kernels=True, host_code=False):
        found.append(_on(_HOST_CODE, lacking, len(records)))
    if lacking := _ranks(records, kernels=True, communication=True, collectives=False):
        found.append(_on(_collectives_of(records, serves=serves), lacking, len(records)))
    if _ranks(records, communication=True):
        found += _other_ranks([*records], not_opened, world_size)
    return tuple(found)


def _no_kernels(records: Mapping[int, RankRecords]) -> NotRecorded:
    """What is missing if no rank has kernels, which depends on whether any were launched."""
    has_calls = bool(_ranks(records, calls=True))
    is_launched = bool(_ranks(records, launches_kernels=True))
    return _NO_KERNEL_LAUNCHES if has_calls and not is_launched else _LOST_KERNELS


def _collectives_of(records: Mapping[int, RankRecords], *, serves: bool) -> NotRecorded:
    """How to record what collectives are, with operators if these are missing too."""
    found = _SERVER_COLLECTIVES if serves else _COLLECTIVES
    if _ranks(records, kernels=True, host_code=False):
        return found
    return found._replace(how=found.how.replace(_AND_OPERATORS, ""))


def options_not_used(job: Job) -> tuple[NotRecorded, ...]:
    """What PyTorch's profiler records with other options, and a diagnosis can do without.

    The profiler records neither frames nor shapes where it does not record operators.
    """
    ranks = [rank for rank in job.ranks if job.sources[rank].format == KINETO]
    records = job.reduce(rank_records, ranks)
    has = {
        _FRAMES: any(each.frames for each in records.values()),
        _SHAPES: any(job.reduce(has_shapes, ranks).values()),
        _MEMORY: any(each.memory for each in records.values()),
    }
    has_code = any(each.host_code for each in records.values())
    return tuple(
        what if has_code or what is _MEMORY else what._replace(how=f"{what.how}{_AND_OPERATORS}")
        for what, is_there in has.items()
        if ranks and not is_there
    )


def has_shapes(rank: Rank) -> bool:
    """Whether the shapes of the inputs of any operator are recorded."""
    events = rank.trace.events
    codes, texts = events.texts_at("operators", "input_dims", events.rows_of(Kind.CPU_OP))
    return any(texts[code] for code in np.unique(codes).tolist() if code >= 0)


def _other_ranks(
    opened: Sequence[int], not_opened: Sequence[int], world_size: int
) -> Iterator[NotRecorded]:
    """Ranks that communicate with the opened ones: those with a trace, and those without."""
    if not_opened:
        who = f"{named_numbers('rank', not_opened)} {'is' if len(not_opened) == 1 else 'are'}"
        how = "Open them, too" if len(not_opened) > 1 else "Open it, too"
        yield NotRecorded(capitalised(who), _OTHER_RANKS, how, is_recorded=True)
    every = [*opened, *not_opened]
    if len(every) == 1 or len(every) < world_size:
        others = f"Ranks other than {number_ranges(every)} are"
        yield NotRecorded(others, _OTHER_RANKS, "Record all ranks")


def _gpu_work_of(records: Mapping[int, RankRecords]) -> Iterator[NotRecorded]:
    """Ranks without GPU work, by what became of it."""
    without = {rank: each for rank, each in records.items() if each.kernels and not each.gpu_work}
    for what, values in (
        (_GPU_WORK, {"calls": False, "measured": False}),
        # operators that launch nothing run on the CPU: nothing is missing
        (_NO_LAUNCHES, {"calls": True, "launches": False, "measured": False, "host_code": False}),
        (_LAUNCHED_WORK, {"launches": True, "waited_for": False, "measured": False}),
        (_UNSEEN_WORK, {"launches": True, "waited_for": True, "measured": False}),
        (_MEASURED_WORK, {"measured": True}),
    ):
        if lacking := _ranks(without, **values):
            yield _on(what, lacking, len(records))


def _calls_of(records: Mapping[int, RankRecords]) -> Iterator[NotRecorded]:
    """Ranks without the calls that launch their work, or wait for it, or without its end."""
    for what, values in (
        (_CALLS, {"launches": False}),
        (_WAITS, {"waits": False}),
        (_LAST_WORK, {"last_work": False}),
    ):
        if lacking := _ranks(records, kernels=True, gpu_work=True, **values):
            yield _on(what, lacking, len(records))


def _of_cpus(records: Mapping[int, RankRecords]) -> Iterator[NotRecorded]:
    """What would show more of a job without GPU work; in others, the GPU shows what matters."""
    if any(each.host_code for each in records.values()):
        if not _ranks(records, frames=True):
            yield _FRAMES
        if not _ranks(records, memory=True):
            yield _MEMORY


def _ranks(records: Mapping[int, RankRecords], **values: bool) -> list[int]:
    """Ranks whose records have these values."""
    return [
        rank
        for rank, of_rank in records.items()
        if all(getattr(of_rank, name) is value for name, value in values.items())
    ]


def _on(lack: NotRecorded, ranks: list[int], count: int) -> NotRecorded:
    """The same, naming the ranks that lack it unless all do."""
    if len(ranks) == count:
        return lack
    what, _, verb = lack.what.rpartition(" ")
    return lack._replace(what=f"{what} of {named_numbers('rank', ranks)} {verb}")


def _not_compared(ranks: Sequence[int], how: str) -> NotRecorded:
    """What is missing for ranks whose steps differ from those of the others."""
    is_one = len(ranks) == 1
    return NotRecorded(
        f"Steps that {named_numbers('rank', ranks)} {'has' if is_one else 'have'} in common with "
        "the others are",
        f"{'it is' if is_one else 'they are'} left out of all comparisons",
        how,
    )
