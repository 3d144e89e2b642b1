"""The communication of the layouts: gathers, scatters, exchanges, sends; and networks of links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hta_widgets.sample.communication import LATENCY_NS, Communication, Group, Kind, Meetings
from hta_widgets.sample.execution import Meeting
from hta_widgets.sample.kernels import BFLOAT16_BYTES

ALL_GATHER: Final = Kind(
    "_allgather_base", "c10d::_allgather_base_", "nccl:_all_gather_base", "AllGather_RING_LL"
)
REDUCE_SCATTER: Final = Kind(
    "_reduce_scatter_base",
    "c10d::_reduce_scatter_base_",
    "nccl:_reduce_scatter_base",
    "ReduceScatter_Sum_bf16_RING_LL",
)
ALL_TO_ALL: Final = Kind("all_to_allv", "c10d::alltoall_base_", "nccl:all_to_all", "SendRecv")
SEND: Final = Kind("send", "c10d::send", "nccl:send", "SendRecv")
RECEIVE: Final = Kind("recv", "c10d::recv_", "nccl:recv", "SendRecv")

Slices = tuple[tuple[int, ...], ...]
"""Of an all-to-all: how many elements each rank sends to each, as rows of the group's ranks."""


def all_gather(group: Group, elements: int) -> Communication:
    """Collect a tensor of which each rank holds an equal part."""
    return Communication(ALL_GATHER, group, elements // len(group.ranks), elements)


def reduce_scatter(group: Group, elements: int) -> Communication:
    """Sum a tensor over the ranks, and leave each an equal part."""
    return Communication(REDUCE_SCATTER, group, elements, elements // len(group.ranks))


@dataclass(frozen=True)
class Exchange(Communication):
    """One rank's part of an all-to-all."""

    slices: Slices

    def splits(self, rank: int) -> tuple[list[int], list[int]]:
        """Return what a rank sends to each and receives from each."""
        place = self.group.ranks.index(rank)
        return list(self.slices[place]), [row[place] for row in self.slices]


def all_to_all(group: Group, rank: int, slices: Slices) -> Exchange:
    """Send a slice to each rank."""
    place = group.ranks.index(rank)
    received = sum(row[place] for row in slices)
    return Exchange(ALL_TO_ALL, group, sum(slices[place]), received, slices)


@dataclass(frozen=True)
class PeerToPeer(Communication):
    """One end of a send and its receive; ``peer`` is the other rank."""

    peer: int

    @property
    def members(self) -> int:
        """Two, in a group of any size."""
        return 2

    def series(self, rank: int) -> tuple[object, ...]:
        """Return the sender and the receiver."""
        ends = (rank, self.peer) if self.kind is SEND else (self.peer, rank)
        return (self.group, *ends)

    def annotation(self, rank: int) -> str:
        """Name the block around the call of NCCL."""
        arrow = "->" if self.kind is SEND else "<-"
        return f"{self.kind.annotation} {rank}{arrow}{self.peer}"

    def fields(self, rank: int) -> str:
        """Write what PyTorch records of it at its kernel."""
        name = "Dst Rank" if self.kind is SEND else "Src Rank"
        return f'{super().fields(rank)}, "{name}": {self.peer}'

    def recorded_rank(self, rank: int) -> int:  # noqa: ARG002
        """Return the peer, which PyTorch records as the rank."""
        return self.group.ranks.index(self.peer)


def send(group: Group, to: int, elements: int) -> PeerToPeer:
    """Send a tensor to another rank."""
    return PeerToPeer(SEND, group, elements, elements, to)


def receive(group: Group, of: int, elements: int) -> PeerToPeer:
    """Receive a tensor from another rank."""
    return PeerToPeer(RECEIVE, group, elements, elements, of)


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

    def transfer_ns(self, rank: int, part: Communication) -> int:
        """Return how long it takes a rank once all ranks have come, in ns.

        In a ring all ranks need the same time. In an exchange, each is done when it has sent and
        received its own slices.
        """
        if isinstance(part, Exchange):
            return LATENCY_NS + self._exchange_ns(rank, part)
        if isinstance(part, PeerToPeer):
            moved = part.sent * BFLOAT16_BYTES
            factor = self._factor(rank, part.peer)
        else:
            ranks = part.group.ranks
            moved = part.ring_bytes
            links = zip(ranks, ranks[1:] + ranks[:1], strict=True)
            factor = max(self._factor(*link) for link in links)
        return LATENCY_NS + int(moved // self.bytes_per_ns * factor)

    def _exchange_ns(self, rank: int, part: Exchange) -> int:
        ranks, slices = part.group.ranks, part.slices
        place = ranks.index(rank)
        others = [(each, self._factor(rank, ranks[each])) for each in range(len(ranks))]
        del others[place]
        out = sum(slices[place][other] * factor for other, factor in others)
        into = sum(slices[other][place] * factor for other, factor in others)
        return int(max(out, into) * BFLOAT16_BYTES / self.bytes_per_ns)

    def _factor(self, rank: int, other: int) -> float:
        return self.link_factors.get((min(rank, other), max(rank, other)), 1.0)


class KeptMeetings(Meetings):
    """The meetings of a job, each kept with one of its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[Communication, Meeting]] = []

    def begin(self, part: Communication) -> Meeting:
        """Make the meeting of a part, the first of its members."""
        meeting = super().begin(part)
        self.kept.append((part, meeting))
        return meeting
