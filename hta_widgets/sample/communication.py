"""Collectives: what NCCL runs, what PyTorch records, how much data moves, and which ranks meet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from hta_widgets.sample.execution import Meeting
from hta_widgets.sample.kernels import BFLOAT16_BYTES, GpuWork, nccl_kernel

LATENCY_NS = 20_000


@dataclass(frozen=True)
class Group:
    """A process group."""

    name: str
    description: str
    ranks: tuple[int, ...]

    def as_recorded(self) -> dict[str, object]:
        """Describe the group as PyTorch does at the head of a trace."""
        return {
            "pg_name": self.name,
            "pg_desc": self.description,
            "backend_config": "cuda:nccl",
            "pg_size": len(self.ranks),
            "ranks": list(self.ranks),
        }


@dataclass(frozen=True)
class Kind:
    """A kind of communication, and its names at each level of PyTorch.

    ``ring_passes`` is how often a rank sends all data through a ring, times size / (size - 1).
    """

    name: str
    op: str
    annotation: str
    kernel: str
    ring_passes: int = 1


ALL_REDUCE: Final = Kind(
    "allreduce", "c10d::allreduce_", "nccl:all_reduce", "AllReduce_Sum_bf16_RING_LL", 2
)


@dataclass(frozen=True)
class Communication:
    """One rank's part of a collective."""

    kind: Kind
    group: Group
    sent: int
    received: int
    """Number of elements on this rank."""

    @property
    def ring_bytes(self) -> int:
        """Bytes that each link of a ring of all ranks carries."""
        size = len(self.group.ranks)
        elements = max(self.sent, self.received)
        return self.kind.ring_passes * (size - 1) * elements * BFLOAT16_BYTES // size

    @property
    def members(self) -> int:
        """Number of ranks that take part."""
        return len(self.group.ranks)

    def series(self, rank: int) -> tuple[object, ...]:  # noqa: ARG002
        """Key that all parts that meet share, also with the parts before and after them."""
        return (self.group, self.kind.name)

    def annotation(self, rank: int) -> str:  # noqa: ARG002
        """Name the block around the NCCL call."""
        return self.kind.annotation

    def kernel(self, *, old: bool) -> GpuWork:
        """Return the kernel, with the name of a current or an old NCCL."""
        return _kernel(self.kind.kernel, old)

    def fields(self, rank: int) -> str:
        """Write what PyTorch records about it at its kernel."""
        out, into = self.splits(rank)
        return (
            f', "Collective name": "{self.kind.name}", "In msg nelems": {self.sent}, '
            f'"Out msg nelems": {self.received}, "Group size": {len(self.group.ranks)}, '
            f'"dtype": "BFloat16", "In split size": "{out}", '
            f'"Out split size": "{into}", '
            f'"Process Group Name": "{self.group.name}", '
            f'"Process Group Description": "{self.group.description}", '
            f'"Process Group Ranks": "{list(self.group.ranks)}"'
        )

    def splits(self, rank: int) -> tuple[list[int], list[int]]:  # noqa: ARG002
        """Return what a rank sends to and receives from each rank, if the sizes differ."""
        return [], []

    def record(self, rank: int) -> str:
        """Write the fields of its ``record_param_comms``."""
        first, *others = self.group.ranks
        stride = others[0] - first if others else 1
        return (
            f'"Rank": {self.recorded_rank(rank)}{self.fields(rank)}, '
            f'"Global rank start": {first}, "Global rank stride": {stride}, '
        )

    def recorded_rank(self, rank: int) -> int:
        """Return what PyTorch records as the rank."""
        return rank


def all_reduce(group: Group, elements: int) -> Communication:
    """Sum a tensor over the ranks."""
    return Communication(ALL_REDUCE, group, elements, elements)


class Meetings:
    """The meetings of a job, which bring together the parts of the ranks in order."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._open: dict[tuple[object, ...], Meeting] = {}

    def join(self, rank: int, part: Communication) -> Meeting:
        """Return the meeting that a rank's next part of this kind joins."""
        series = part.series(rank)
        key = (*series, self._counts[(*series, rank)])
        self._counts[(*series, rank)] += 1
        if key not in self._open:
            self._open[key] = self.begin(part)
        meeting = self._open[key]
        meeting.expected -= 1
        if not meeting.expected:
            del self._open[key]
        return meeting

    def begin(self, part: Communication) -> Meeting:
        """Make the meeting of a part, which is its first member."""
        return Meeting(part.members)


@cache
def _kernel(name: str, old: bool) -> GpuWork:  # noqa: FBT001
    work = nccl_kernel(name)
    if not old:
        return work
    operation, *rest = name.split("_")
    algorithm = "_".join(["RING_LL", "Sum", "float"] if rest else ["RING_SIMPLE", "Sum", "int8_t"])
    return replace(
        work, name=f"ncclKernel_{operation}_{algorithm}(ncclDevComm*, unsigned long, ncclWork*)"
    )
