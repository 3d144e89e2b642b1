"""Jobs of several ranks whose operations, arrivals and ends are known, written as traces.

Nothing here shares code with the package. True times are whole ns; each rank writes them by its own
clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import Event, call, kernel, write

FIRST_NS = 50_000_000
KERNELS = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_allgather_base": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_to_all": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "broadcast": "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "send": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "recv": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}


@dataclass
class Operation:
    """One operation of some ranks, in true time."""

    name: str
    group: str
    ranks: tuple[int, ...]
    elements: int
    arrivals: dict[int, int]
    end: int
    group_ranks: tuple[int, ...] = ()

    @property
    def last(self) -> int:
        return max(self.arrivals.values())

    def wait(self, rank: int) -> int:
        return self.last - self.arrivals[rank]

    @property
    def transfer(self) -> int:
        return self.end - self.last


@dataclass
class Clock:
    """A rank writes ``offset + t * (1 + drift)``."""

    offset: int = 0
    drift_ppm: float = 0.0

    def writes(self, time: int) -> int:
        return self.offset + time + round(time * self.drift_ppm * 1e-6)


@dataclass
class Scene:
    """A job while it is being made."""

    ranks: int
    seed: int = 0
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311
        self.now = dict.fromkeys(range(self.ranks), FIRST_NS)

    def compute(self, rank: int, least: int = 100_000, most: int = 900_000) -> None:
        self.now[rank] += self.random.randint(least, most)

    def meet(
        self,
        ranks: Sequence[int],
        *,
        name: str = "allreduce",
        group: str = "world",
        elements: int = 4096,
        transfer: int = 200_000,
        group_ranks: Sequence[int] = (),
    ) -> Operation:
        """All members end when the last one has arrived and everything is transferred."""
        arrivals = {rank: self.now[rank] for rank in ranks}
        end = max(arrivals.values()) + transfer
        made = Operation(
            name, group, tuple(ranks), elements, arrivals, end, tuple(group_ranks or ranks)
        )
        self.operations.append(made)
        self.now |= dict.fromkeys(ranks, end + 5_000)
        return made


Fields = Callable[[Operation, int], Mapping[str, Any]]


def all_fields(operation: Operation, rank: int) -> dict[str, Any]:
    """What PyTorch writes since 2024."""
    name, peer = operation.name, {}
    if name == "p2p":
        sender, receiver = operation.ranks
        name = "send" if rank == sender else "recv"
        peer = {"Dst Rank": receiver} if rank == sender else {"Src Rank": sender}
    return {
        "Collective name": name,
        "In msg nelems": operation.elements,
        "Out msg nelems": operation.elements,
        "Group size": len(operation.group_ranks),
        "dtype": "BFloat16",
        "Process Group Name": operation.group,
        "Process Group Description": f"{operation.group}_pg",
        "Process Group Ranks": str(list(operation.group_ranks)),
        **peer,
    }


def one_name(operation: Operation, rank: int) -> dict[str, Any]:
    """Sibling groups with the same name."""
    return all_fields(operation, rank) | {"Process Group Name": "g"}


def no_fields(operation: Operation, rank: int) -> dict[str, Any]:
    """What PyTorch wrote before."""
    del operation, rank
    return {}


def without(*keys: str) -> Fields:
    """All fields but some."""

    def fields(operation: Operation, rank: int) -> dict[str, Any]:
        every = all_fields(operation, rank)
        return {key: value for key, value in every.items() if key not in keys}

    return fields


def trace_of(
    operations: Iterable[Operation], rank: int, clock: Clock, fields: Fields, first: int = 0
) -> list[Event]:
    """Events of one rank, without its first operations; a computation lies before each."""
    events: list[Event] = []
    for number, operation in enumerate(op for op in operations if rank in op.ranks):
        if number < first:
            continue
        args = fields(operation, rank)
        name = args.get("Collective name") or (
            "send" if operation.name == "p2p" else operation.name
        )
        start, end = clock.writes(operation.arrivals[rank]), clock.writes(operation.end)
        events += [
            call((start - 9_000) / 1000, 4, 2 * number + 1),
            kernel((start - 4_000) / 1000, 2, name="gemm", correlation=2 * number + 1, device=rank),
            call((start - 7_000) / 1000, 3, 2 * number + 2),
            kernel(
                start / 1000,
                (end - start) / 1000,
                name=KERNELS[name],
                stream=20,
                correlation=2 * number + 2,
                device=rank,
                **args,
            ),
        ]
    return events


def write_job(
    folder: Path,
    scene: Scene,
    *,
    clocks: Mapping[int, Clock] | None = None,
    fields: Fields = all_fields,
    ranks: Sequence[int] | None = None,
    first: Mapping[int, int] | None = None,
    **metadata: Any,
) -> Path:
    """Write a trace for each rank, or for some."""
    for rank in range(scene.ranks) if ranks is None else ranks:
        clock = (clocks or {}).get(rank, Clock())
        events = trace_of(scene.operations, rank, clock, fields, (first or {}).get(rank, 0))
        info = {"rank": rank, "world_size": scene.ranks, "backend": "nccl"} | metadata
        write(folder / f"rank-{rank}.json", events, distributedInfo=info)
    return folder


def open_job(folder: Path, **options: Any) -> Job:
    return open_trace(folder, progress=False, **options)


def ddp(ranks: int = 4, operations: int = 30, seed: int = 0, slow: int | None = None) -> Scene:
    """Every rank computes and meets all others."""
    scene = Scene(ranks, seed)
    for number in range(operations):
        for rank in range(ranks):
            scene.compute(rank)
            if rank == slow:
                scene.compute(rank, 1_000_000, 1_100_000)
        scene.meet(range(ranks), elements=1000 + number)
    return scene


def sharded(seed: int = 0, operations: int = 20) -> Scene:
    """Eight ranks: tensor parallel in pairs, data parallel across, and everybody now and then."""
    scene = Scene(8, seed)
    for number in range(operations):
        for pair in ((0, 1), (2, 3), (4, 5), (6, 7)):
            for rank in pair:
                scene.compute(rank)
            scene.meet(pair, name="_allgather_base", group=f"tp{pair[0]}", transfer=50_000)
        for four in ((0, 2, 4, 6), (1, 3, 5, 7)):
            for rank in four:
                scene.compute(rank)
            scene.meet(four, group=f"dp{four[0]}", elements=100 + number)
        if number % 4 == 3:
            scene.meet(range(8), name="allreduce", elements=1)
    return scene


def pipeline(stages: int = 4, microbatches: int = 20, seed: int = 0) -> Scene:
    """Activations forwards, gradients back; the group of all stages is written at each."""
    scene = Scene(stages, seed)
    everybody = range(stages)
    for _ in range(microbatches):
        for stage in range(stages - 1):
            scene.compute(stage)
            pair = (stage, stage + 1)
            scene.meet(pair, name="p2p", group="pp", transfer=30_000, group_ranks=everybody)
        for stage in reversed(range(1, stages)):
            scene.compute(stage)
            pair = (stage, stage - 1)
            scene.meet(pair, name="p2p", group="pp", transfer=30_000, group_ranks=everybody)
    return scene


def expected(scene: Scene) -> dict[tuple[int, int], tuple[int, int]]:
    """Wait and transfer of each rank's n-th communication kernel, in order of start."""
    found = {}
    for rank in range(scene.ranks):
        own = [each for each in scene.operations if rank in each.ranks]
        for number, operation in enumerate(own):
            found[rank, number] = (operation.wait(rank), operation.transfer)
    return found
