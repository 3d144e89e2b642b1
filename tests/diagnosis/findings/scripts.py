"""Hosts that launch work, step by step, written as traces; times are µs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hta_widgets import diagnose
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import Event, call, host, kernel, write

START = 1000
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Host:
    """One rank: a host that launches, and a GPU that works in order."""

    def __init__(self, *, starting: float = 0) -> None:
        self.starting = starting
        self.events: list[Event] = []
        self.now = float(START)
        self.free = float(START)
        self._calls = 0

    @property
    def launched(self) -> int:
        """Correlation id of the last call."""
        return self._calls

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """A ProfilerStep."""
        with self.inside(f"ProfilerStep#{number}"):
            yield

    @contextmanager
    def inside(self, name: str, cat: str = "user_annotation") -> Iterator[None]:
        """An annotation or another call around what is done in it."""
        begin = self.now
        yield
        self.events.append(host(begin, self.now - begin, name, cat=cat))

    def does(self, name: str, length: float, cat: str = "cpu_op") -> None:
        """Something that launches nothing."""
        self.events.append(host(self.now, length, name, cat=cat))
        self.now += length

    def calls(self, name: str, length: float) -> None:
        """A call of the CUDA runtime that launches nothing."""
        self._calls += 1
        self.events.append(call(self.now, length, self._calls, name=name))
        self.now += length

    def launch(
        self,
        length: float = 100,
        *,
        operator: str = "aten::mm",
        takes: float = 10,
        shapes: Sequence[Sequence[int]] = (),
        type_: str = "float",
        values: Sequence[str] = (),
        **work: Any,
    ) -> None:
        """An operator that launches a piece of work."""
        event = host(self.now, takes, operator)
        if shapes:
            event["args"] = {"Input Dims": shapes, "Input type": [type_] * len(shapes)}
        if values:
            event["args"]["Concrete Inputs"] = values
        self.events.append(event)
        self.queue(length, **work)
        self.now += takes

    def queue(self, length: float, **work: Any) -> None:
        """A launch call now, and its work as soon as the GPU is free."""
        self._calls += 1
        self.events.append(call(self.now + 1, 4, self._calls))
        begin = max(self.free + self.starting, self.now + 6)
        self.events.append(kernel(begin, length, correlation=self._calls, **work))
        self.free = begin + length

    def reads(self, operator: str, length: float) -> None:
        """An operator that copies to the host, and returns when that is done."""
        begin, start = self.now, max(self.free + 1, self.now + 8)
        self._calls += 1
        self.free = start + length
        self.now = self.free + 6
        self.events += [
            host(begin, self.now - begin, operator),
            call(begin + 1, self.now - begin - 2, self._calls, name="cudaMemcpy"),
            kernel(
                start,
                length,
                correlation=self._calls,
                cat="gpu_memcpy",
                name="Memcpy DtoH (Device -> Pageable)",
            ),
        ]

    def synchronise(self, operator: str = "") -> None:
        """Wait until the GPU has done everything."""
        begin, end = self.now, max(self.now + 1, self.free + 2)
        self._calls += 1
        name = "cudaStreamSynchronize"
        self.events.append(call(begin + 0.5, end - begin - 0.5, self._calls, name=name))
        if operator:
            self.events.append(host(begin, end - begin, operator))
        self.now = end


@contextmanager
def step_of(
    hosts: Sequence[Host], number: int, *, marks: bool = True, waits: bool = True
) -> Iterator[None]:
    """A ProfilerStep of each rank, at whose end each waits for its GPU; or the same unmarked."""
    with ExitStack() as steps:
        for each in hosts if marks else ():
            steps.enter_context(each.step(number))
        yield
        for each in hosts if waits else ():
            each.synchronise()


def all_reduce(hosts: Sequence[Host], transfer: float = 50, *, stream: int = 20) -> None:
    """All ranks meet."""
    arrivals = [max(each.free, each.now + 6) for each in hosts]
    end = max(arrivals) + transfer
    args = {
        "Collective name": "allreduce",
        "In msg nelems": 4096,
        "Out msg nelems": 4096,
        "Group size": len(hosts),
        "dtype": "BFloat16",
        "Process Group Name": "world",
        "Process Group Ranks": str([*range(len(hosts))]),
    }
    for each, begin in zip(hosts, arrivals, strict=True):
        each.queue(end - begin, name=ALL_REDUCE, stream=stream, **args)
        each.free = end
        each.now += 10


def diagnosed(
    folder: Path,
    *hosts: Host,
    gpu: dict[str, Any] | None = None,
    unprofiled_us: float = 0,
    **options: Any,
):
    """The diagnosis of a job with these ranks, whose steps took so long without the profiler."""
    metadata = {} if gpu is None else {"deviceProperties": [{"id": 0, **gpu}]}
    if unprofiled_us:
        metadata["unprofiledStepNanoseconds"] = round(1000 * unprofiled_us)
    for rank, each in enumerate(hosts):
        info = {"rank": rank, "world_size": len(hosts), "backend": "nccl"}
        write(folder / f"rank-{rank}.json", each.events, distributedInfo=info, **metadata)
    return diagnose(open_trace(folder, progress=False), **options)


def found(result, cause):
    """The finding of a cause, checked for what holds of all; None without it."""
    for each in result:
        assert len(each.sentence) <= 260, each.sentence
        assert any(character.isdigit() for character in each.sentence)
        assert each.action
        assert each.links
        assert each.recoverable_ms > 0
    return next((each for each in result if each.cause == cause), None)
