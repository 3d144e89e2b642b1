"""Collectives, sends and receives: what NCCL runs, what PyTorch records, how long it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
        """Describe it as PyTorch does at the head of a trace."""
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


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("allreduce", "c10d::allreduce_", "nccl:all_reduce", "AllReduce_Sum_bf16_RING_LL", 2),
        Kind(
            "_allgather_base",
            "c10d::_allgather_base_",
            "nccl:_all_gather_base",
            "AllGather_RING_LL",
        ),
        Kind(
            "_reduce_scatter_base",
            "c10d::_reduce_scatter_base_",
            "nccl:_reduce_scatter_base",
            "ReduceScatter_Sum_bf16_RING_LL",
        ),
        Kind("all_to_allv", "c10d::alltoall_base_", "nccl:all_to_all", "SendRecv"),
        Kind("send", "c10d::send", "nccl:send", "SendRecv"),
        Kind("recv", "c10d::recv_", "nccl:recv", "SendRecv"),
    )
}


@dataclass(frozen=True)
class Communication:
    """One rank's part of a collective, of a send or of a receive.

    Attributes
    ----------
    sent, received
        Number of elements on this rank.
    slices
        Of an all-to-all: what each rank sends to each, as rows of the group's ranks.
    peer
        Of a send or receive: the other rank.
    """

    kind: Kind
    group: Group
    sent: int
    received: int
    slices: tuple[tuple[int, ...], ...] = ()
    peer: int | None = None

    def annotation(self, rank: int) -> str:
        """Name the block around the call of NCCL."""
        arrow = {"send": "->", "recv": "<-"}.get(self.kind.name)
        return f"{self.kind.annotation} {rank}{arrow}{self.peer}" if arrow else self.kind.annotation

    def kernel(self, *, old: bool) -> GpuWork:
        """Return the kernel, with the name of a current or an old NCCL."""
        return _kernel(self.kind.kernel, old)

    def fields(self, rank: int) -> str:
        """Write what PyTorch records of it at its kernel."""
        place = self.group.ranks.index(rank)
        into = [row[place] for row in self.slices]
        splits = (list(self.slices[place]), into) if self.slices else ([], [])
        peer = {"send": "Dst Rank", "recv": "Src Rank"}.get(self.kind.name)
        return (
            f', "Collective name": "{self.kind.name}", "In msg nelems": {self.sent}, '
            f'"Out msg nelems": {self.received}, "Group size": {len(self.group.ranks)}, '
            f'"dtype": "BFloat16", "In split size": "{splits[0]}", '
            f'"Out split size": "{splits[1]}", '
            f'"Process Group Name": "{self.group.name}", '
            f'"Process Group Description": "{self.group.description}", '
            f'"Process Group Ranks": "{list(self.group.ranks)}"'
            + (f', "{peer}": {self.peer}' if peer else "")
        )

    def record(self, rank: int) -> str:
        """Write the fields of its ``record_param_comms``; a send records the peer as its rank."""
        recorded = rank if self.peer is None else self.group.ranks.index(self.peer)
        first, *others = self.group.ranks
        stride = others[0] - first if others else 1
        return (
            f'"Rank": {recorded}{self.fields(rank)}, '
            f'"Global rank start": {first}, "Global rank stride": {stride}, '
        )


def all_reduce(group: Group, elements: int) -> Communication:
    """Sum a tensor over the ranks."""
    return Communication(KINDS["allreduce"], group, elements, elements)


def all_gather(group: Group, elements: int) -> Communication:
    """Collect a tensor of which each rank holds an equal part."""
    part = elements // len(group.ranks)
    return Communication(KINDS["_allgather_base"], group, part, elements)


def reduce_scatter(group: Group, elements: int) -> Communication:
    """Sum a tensor over the ranks, and leave each an equal part."""
    part = elements // len(group.ranks)
    return Communication(KINDS["_reduce_scatter_base"], group, elements, part)


def all_to_all(group: Group, rank: int, slices: tuple[tuple[int, ...], ...]) -> Communication:
    """Send a slice to each rank."""
    place = group.ranks.index(rank)
    received = sum(row[place] for row in slices)
    return Communication(KINDS["all_to_allv"], group, sum(slices[place]), received, slices)


def send(group: Group, to: int, elements: int) -> Communication:
    """Send a tensor to another rank."""
    return Communication(KINDS["send"], group, elements, elements, peer=to)


def receive(group: Group, of: int, elements: int) -> Communication:
    """Receive a tensor from another rank."""
    return Communication(KINDS["recv"], group, elements, elements, peer=of)


@dataclass(frozen=True)
class Network:
    """How fast data moves between ranks.

    Attributes
    ----------
    bytes_per_ns
        Bandwidth of each link.
    link_factors
        How many times longer data takes between two ranks, by (lower, higher) rank.
    """

    bytes_per_ns: int
    link_factors: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def transfer_ns(self, rank: int, communication: Communication) -> int:
        """Return how long it takes a rank once all ranks have come, in ns.

        In a ring all ranks need the same time. In an exchange, each is done when it has sent and
        received its own slices.
        """
        ranks = communication.group.ranks
        if communication.slices:
            return LATENCY_NS + self._exchange_ns(rank, communication)
        if communication.peer is not None:
            moved = communication.sent * BFLOAT16_BYTES
            factor = self._factor(rank, communication.peer)
        else:
            elements = max(communication.sent, communication.received)
            size = len(ranks)
            passes = communication.kind.ring_passes
            moved = passes * (size - 1) * elements * BFLOAT16_BYTES // size
            links = zip(ranks, ranks[1:] + ranks[:1], strict=True)
            factor = max(self._factor(*link) for link in links)
        return LATENCY_NS + int(moved // self.bytes_per_ns * factor)

    def _exchange_ns(self, rank: int, communication: Communication) -> int:
        ranks, slices = communication.group.ranks, communication.slices
        place = ranks.index(rank)
        others = [(each, self._factor(rank, ranks[each])) for each in range(len(ranks))]
        del others[place]
        out = sum(slices[place][other] * factor for other, factor in others)
        into = sum(slices[other][place] * factor for other, factor in others)
        return int(max(out, into) * BFLOAT16_BYTES / self.bytes_per_ns)

    def _factor(self, rank: int, other: int) -> float:
        return self.link_factors.get((min(rank, other), max(rank, other)), 1.0)


class Meetings:
    """The meetings of a job: brings together the parts of the ranks, in order."""

    def __init__(self, *, keep: bool = False) -> None:
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._open: dict[tuple[object, ...], Meeting] = {}
        self._keep = keep
        self.kept: list[tuple[Communication, Meeting]] = []
        """Every meeting with one of its parts, if they are kept."""

    def join(self, rank: int, part: Communication) -> Meeting:
        """Return the meeting of which a rank's next part of this kind is a member."""
        if part.peer is None:
            series: tuple[object, ...] = (part.group, part.kind.name)
            size = len(part.group.ranks)
        else:
            ends = (rank, part.peer) if part.kind.name == "send" else (part.peer, rank)
            series, size = (part.group, *ends), 2
        key = (*series, self._counts[(*series, rank)])
        self._counts[(*series, rank)] += 1
        if key not in self._open:
            meeting = Meeting(size)
            self._open[key] = meeting
            if self._keep:
                self.kept.append((part, meeting))
        meeting = self._open[key]
        meeting.expected -= 1
        if not meeting.expected:
            del self._open[key]
        return meeting


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
