"""Jobs of several ranks from what each rank does in each step, written as traces.

A rank computes and meets others; its host launches everything ahead of time. Nothing here shares
code with the package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hta_widgets.diagnosis import Diagnosis, diagnosis
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import Event, call, host, kernel, step, write

US = 1000
FIRST_STEP = 10
BETWEEN_CALLS = 3 * US
LENGTH_OF_CALL = 2 * US
BEFORE_CALL = 500
"""An operator begins so long before its call, and a step just before its first operator."""


@dataclass(frozen=True)
class Compute:
    """A kernel."""

    ns: int
    name: str = "gemm"
    shape: str = "[[64, 64]]"
    grid: int = 8


@dataclass(frozen=True)
class Meet:
    """A collective, or a send from the first of two ranks to the second."""

    ranks: tuple[int, ...]
    transfer_ns: int = 200 * US
    name: str = "allreduce"
    group: str = "world"
    sent: int | Mapping[int, int] = 4096
    received: int | Mapping[int, int] = 4096

    @property
    def key(self) -> tuple[str, str, tuple[int, ...]]:
        return (self.name, self.group, self.ranks)


Item = Compute | Meet
Program = Callable[[int, int], Sequence[Item]]


@dataclass(frozen=True)
class Done:
    """An item, as it ran."""

    step: int
    item: Item
    launch: int
    start: int
    end: int


KERNELS = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_gather": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_to_all": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "p2p": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}


class _Simulation:
    """The ranks while they run; one more step is recorded, which is not analysed."""

    def __init__(self, ranks: int, steps: int, program: Program) -> None:
        self.left = [
            [(at, item) for at in range(steps + 1) for item in program(rank, at)]
            for rank in range(ranks)
        ]
        self.done: list[list[Done]] = [[] for _ in range(ranks)]
        self.now, self.host = [0] * ranks, [0] * ranks

    def run(self) -> list[list[Done]]:
        ranks = range(len(self.left))
        while any(self.left):
            before = sum(map(len, self.left))
            for rank in ranks:
                self.compute(rank)
            for rank in ranks:
                self.meet(rank)
            assert sum(map(len, self.left)) < before, "the programs of the ranks do not meet"
        return self.done

    def head(self, rank: int) -> Item | None:
        return self.left[rank][0][1] if self.left[rank] else None

    def compute(self, rank: int) -> None:
        while isinstance(item := self.head(rank), Compute):
            start = self.launch(rank)
            self.finish(rank, start, start + item.ns)

    def meet(self, rank: int) -> None:
        item = self.head(rank)
        if not isinstance(item, Meet):
            return
        heads = [self.head(other) for other in item.ranks]
        if all(isinstance(head, Meet) and head.key == item.key for head in heads):
            starts = {other: self.launch(other) for other in item.ranks}
            for other in item.ranks:
                self.finish(other, starts[other], max(starts.values()) + item.transfer_ns)

    def launch(self, rank: int) -> int:
        """Launch the next item; the host waits for nothing."""
        self.host[rank] += BETWEEN_CALLS
        return max(self.now[rank], self.host[rank] + LENGTH_OF_CALL)

    def finish(self, rank: int, start: int, end: int) -> None:
        at, item = self.left[rank].pop(0)
        self.done[rank].append(Done(at, item, self.host[rank], start, end))
        self.now[rank] = end + US


def _of_rank(number: int | Mapping[int, int], rank: int) -> int:
    return number if isinstance(number, int) else number[rank]


def fields_of(item: Meet, rank: int) -> dict[str, Any]:
    """What PyTorch records of a collective."""
    name, peer = item.name, {}
    if name == "p2p":
        sender, receiver = item.ranks
        name = "send" if rank == sender else "recv"
        peer = {"Dst Rank": receiver} if rank == sender else {"Src Rank": sender}
    return {
        "Collective name": name,
        "In msg nelems": _of_rank(item.sent, rank),
        "Out msg nelems": _of_rank(item.received, rank),
        "Group size": len(item.ranks),
        "dtype": "BFloat16",
        "Process Group Name": item.group,
        "Process Group Description": item.group,
        "Process Group Ranks": str(list(item.ranks)),
        **peer,
    }


def events_of(
    rank: int, done: Sequence[Done], *, shapes: bool, grids: bool, shift_ns: int
) -> list[Event]:
    """Events of one rank in the order of its steps."""
    events: list[Event] = []
    starts = {each.step: each.launch - BEFORE_CALL - 50 for each in reversed(done)}
    numbers = sorted(starts)
    ends = [*(starts[number] for number in numbers[1:]), done[-1].end]
    for number, end in zip(numbers, ends, strict=True):
        start = starts[number] + shift_ns
        events.append(step(FIRST_STEP + number, start / US, (end + shift_ns - start) / US))
    for correlation, each in enumerate(done, 1):
        item, launch = each.item, each.launch + shift_ns
        start, length = (each.start + shift_ns) / US, (each.end - each.start) / US
        events.append(call(launch / US, LENGTH_OF_CALL / US, correlation))
        if isinstance(item, Meet):
            name, fields = KERNELS[item.name], fields_of(item, rank)
            events.append(
                kernel(start, length, name=name, stream=20, correlation=correlation, **fields)
            )
            continue
        operator = host((launch - BEFORE_CALL) / US, (LENGTH_OF_CALL + 900) / US, "aten::mm")
        if shapes:
            operator["args"] = {"Input Dims": json.loads(item.shape), "External id": correlation}
        sizes = {"grid": [item.grid, 1, 1], "block": [128, 1, 1]} if grids else {}
        events += [
            operator,
            kernel(start, length, name=item.name, correlation=correlation, **sizes),
        ]
    return events


def write_training(
    folder: Path,
    ranks: int,
    program: Program,
    *,
    steps: int = 4,
    shapes: bool = True,
    grids: bool = True,
    marks: bool = True,
    only: Sequence[int] | None = None,
    shifts_ns: Mapping[int, int] | None = None,
    **metadata: Any,
) -> Path:
    """Write a trace for each rank, or for some."""
    done = _Simulation(ranks, steps, program).run()
    for rank in range(ranks) if only is None else only:
        shift = (shifts_ns or {}).get(rank, 0)
        events = events_of(rank, done[rank], shapes=shapes, grids=grids, shift_ns=shift)
        events = [event for event in events if marks or event.get("cat") != "user_annotation"]
        info = {"rank": rank, "world_size": ranks, "backend": "nccl"}
        write(folder / f"rank-{rank}.json", events, distributedInfo=info, **metadata)
    return folder


def diagnosed(folder: Path, **options: Any) -> Diagnosis:
    """The diagnosis of the traces of a folder."""
    return diagnosis(open_trace(folder, progress=False), **options)


def found(made: Diagnosis, cause: str) -> Any:
    """The finding of a cause, which must be there and read well; None if it is not."""
    finding = next((each for each in made if each.cause == cause), None)
    if finding is not None:
        assert len(finding.sentence) <= 260
        assert any(letter.isdigit() for letter in finding.sentence)
        assert finding.recoverable_ms >= 0
    return finding


def layers(count: int, ns: int, **options: Any) -> list[Compute]:
    """Kernels that are all the same."""
    return [Compute(ns, **options) for _ in range(count)]
