"""What the traces lack that a diagnosis needs, and how to record it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hta_widgets.analyses.memory_use.analysis import may_record
from hta_widgets.errors import number_ranges
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank


class RankRecords(NamedTuple):
    """What one rank's trace holds.

    Attributes
    ----------
    gpu_work : bool
        Any work of a GPU.
    kernels : bool
        Each kernel, not only the time in which any runs.
    host_code : bool
        Operators or Python functions.
    frames, memory : bool
        Python functions, and what is allocated.
    communication : bool
        Communication kernels.
    collectives : bool
        Which collective, group and size a communication kernel belongs to.
    trains : bool
        A backward pass, or the step of an optimizer.
    """

    gpu_work: bool
    kernels: bool
    host_code: bool
    frames: bool
    memory: bool
    communication: bool
    collectives: bool
    trains: bool = False


class NotRecorded(NamedTuple):
    """Something that the traces lack.

    Attributes
    ----------
    what : str
    untold : str
        What a diagnosis cannot tell without it.
    how : str
        How to record it.
    """

    what: str
    untold: str
    how: str

    @property
    def sentence(self) -> str:
        """All of it in words."""
        return f"{self.what} not recorded: {self.untold}. {self.how}."


_OF_TRAINING: Final = ("autograd::engine::", "Optimizer.step")

_KERNELS: Final = NotRecorded(
    "Kernels are", "no cause can be told", "Diagnose the trace that this table was made from"
)
_GPU_WORK: Final = NotRecorded(
    "GPU work is",
    "what the GPU waits for cannot be told",
    "Record activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] in PyTorch, "
    "nsys profile --trace=cuda,nvtx in Nsight Systems",
)
_FRAMES: Final = NotRecorded(
    "Python frames are", "which lines take the time cannot be told", "Record with_stack=True"
)
_MEMORY: Final = NotRecorded(
    "Memory events are", "what fills the memory cannot be told", "Record profile_memory=True"
)
_STEPS: Final = NotRecorded(
    "ProfilerSteps that all ranks have in common are",
    "costs are those of the GPU span, and no step can be compared with the others",
    "Mark steps: profiler.step() in PyTorch, NVTX ranges ProfilerStep#1, #2, ... in Nsight Systems",
)
_HOST_CODE: Final = NotRecorded(
    "Operators are",
    "pauses of the host cannot be told from work that it does not launch",
    "Record ProfilerActivity.CPU in PyTorch, NVTX ranges (emit_nvtx) in Nsight Systems",
)
_COLLECTIVES: Final = NotRecorded(
    "Process groups and message sizes are",
    "slow_link, expert_imbalance and pipeline_bubble cannot be told",
    "Record with PyTorch 2.4 or newer and ProfilerActivity.CPU",
)
_OTHER_RANKS: Final = "waiting for them and transfer cannot be told apart"


def rank_records(rank: Rank) -> RankRecords:
    """Look up what a rank's trace holds."""
    events = rank.trace.events
    fields = events.side.get("collectives")
    return RankRecords(
        gpu_work=len(rank.gpu_work) > 0,
        kernels=Recorded.KERNELS not in rank.lacks.missing,
        host_code=bool(events.rows_of(Kind.CPU_OP, Kind.PYTHON).size),
        frames=bool(events.rows_of(Kind.PYTHON).size),
        memory=may_record(rank),
        communication=bool((rank.gpu_work.type == KernelType.COMMUNICATION).any()),
        collectives=fields is not None and bool(fields.rows.size),
        trains=any(name.startswith(_OF_TRAINING) for name in events.name.values),
    )


def not_recorded(
    records: Mapping[int, RankRecords],
    *,
    world_size: int,
    with_steps: bool,
    left_out: Sequence[int] = (),
) -> tuple[NotRecorded, ...]:
    """List what the traces lack.

    Parameters
    ----------
    records : mapping of int to RankRecords
        Of all ranks with a trace.
    world_size : int
        Number of ranks that the traced job had; 0 if not recorded.
    with_steps : bool
        Whether the ranks that are compared have steps in common.
    left_out : sequence of int
        Ranks with GPU work that are not compared: no part of their time is that of the others.
    """
    found = []
    if lacking := _ranks(records, kernels=True, gpu_work=False):
        found.append(_on(_GPU_WORK, lacking, len(records)))
        if len(lacking) == len(records):
            return (*found, *_of_cpus(records))
    if lacking := _ranks(records, kernels=False):
        found.append(_on(_KERNELS, lacking, len(records)))
        if len(lacking) == len(records):
            return tuple(found)
    if left_out:
        found.append(_not_compared(left_out))
    if not with_steps:
        found.append(_STEPS)
    if lacking := _ranks(records, kernels=True, host_code=False):
        found.append(_on(_HOST_CODE, lacking, len(records)))
    if lacking := _ranks(records, kernels=True, communication=True, collectives=False):
        found.append(_on(_COLLECTIVES, lacking, len(records)))
    communicates = bool(_ranks(records, communication=True))
    if communicates and (len(records) == 1 or len(records) < world_size):
        others = f"Ranks other than {number_ranges(records)} are"
        found.append(NotRecorded(others, _OTHER_RANKS, "Record all ranks"))
    return tuple(found)


def _of_cpus(records: Mapping[int, RankRecords]) -> Iterator[NotRecorded]:
    """What tells more of a job without GPU work; in others, the GPU tells what matters."""
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
    """The same, with the ranks that lack it unless all do."""
    if len(ranks) == count:
        return lack
    what, _, verb = lack.what.rpartition(" ")
    return lack._replace(what=f"{what} of {_named(ranks)} {verb}")


def _not_compared(ranks: Sequence[int]) -> NotRecorded:
    """The steps of some ranks, which are not those of the others."""
    is_one = len(ranks) == 1
    return NotRecorded(
        f"Steps that {_named(ranks)} {'has' if is_one else 'have'} in common with the others are",
        f"{'it is' if is_one else 'they are'} left out of all comparisons",
        _STEPS.how,
    )


def _named(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {number_ranges(ranks)}"
