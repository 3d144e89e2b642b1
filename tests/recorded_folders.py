"""Folders of traces, with the names and contents that the profilers of frameworks give them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.kineto_text import Event, kernel, write

BASE_NS = 1_751_410_836_000_000_000
"""From which the times of these traces count, in ns since 1970."""

CYCLE_US = 30_000_000
"""From one cycle to the next."""


class Recorded(NamedTuple):
    """One file."""

    rank: int = 0
    pid: int = 100
    start_us: float = 1_000_000
    step: int = 2
    world_size: int | None = None
    has_gpu_work: bool = True
    host: str = "node"

    @property
    def stamp_ns(self) -> int:
        """When the file was written."""
        return BASE_NS + int(self.start_us * 1000) + 1_000_000


def tensorboard(made: Recorded) -> str:
    """Name that `tensorboard_trace_handler` gives by default."""
    return f"{made.host}_{made.pid}.{made.stamp_ns}.pt.trace.json.gz"


def vllm(made: Recorded) -> str:
    return f"dp0_pp0_tp{made.rank}_dcp0_ep0_rank{made.rank}.{made.stamp_ns}.pt.trace.json.gz"


def vllm_front_end(made: Recorded) -> str:
    return f"{made.host}_{made.pid}.async_llm.{made.stamp_ns}.pt.trace.json.gz"


def sglang(made: Recorded) -> str:
    seconds = (BASE_NS // 1000 + int(made.start_us) // CYCLE_US * CYCLE_US) / 1e6
    return f"{seconds}-TP-{made.rank}.trace.json.gz"


def ranked(made: Recorded) -> str:
    """A name of one's own, with the rank and the step."""
    return f"profile_rank{made.rank}_step{made.step}.json"


def events_of(made: Recorded) -> list[Event]:
    """Two steps with a kernel in each."""
    pid, start = made.pid, made.start_us
    events: list[Event] = []
    for number in range(2):
        at = start + 1000 * number
        events += [
            _host(f"ProfilerStep#{made.step + number}", "user_annotation", at, 900, pid),
            _host("aten::mm", "cpu_op", at + 5, 50, pid),
        ]
        if made.has_gpu_work:
            launch = _host("cudaLaunchKernel", "cuda_runtime", at + 10, 5, pid)
            launch["args"] = {"correlation": made.step + number}
            events += [
                launch,
                kernel(at + 20, 300 + 100 * made.step, correlation=made.step + number),
            ]
    return events


def write_folder(
    folder: Path,
    recordings: list[Recorded],
    name: Callable[[Recorded], str] = tensorboard,
    **metadata: Any,
) -> Path:
    """Write files; those with a world size state it and their rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for made in recordings:
        stated: dict[str, Any] = {"baseTimeNanoseconds": BASE_NS, **metadata}
        if made.world_size is not None:
            stated["distributedInfo"] = {"rank": made.rank, "world_size": made.world_size}
        write(folder / name(made), events_of(made), **stated)
    return folder


def cycles(ranks: int, count: int, **fields: Any) -> list[Recorded]:
    """What each rank of a job writes in a few cycles."""
    return [
        Recorded(
            **{
                "rank": rank,
                "pid": 100 + rank,
                "start_us": 1_000_000 + CYCLE_US * cycle + 7 * rank,
                "step": 2 + 5 * cycle,
                "world_size": ranks,
            }
            | fields
        )
        for rank in range(ranks)
        for cycle in range(count)
    ]


def _host(name: str, category: str, ts: float, dur: float, pid: int) -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid, "ts": ts, "dur": dur}
