"""Small jobs drawn by hypothesis, and brute force over their raw events.

Nothing here shares code with the package: times are whole µs, so that a set of microseconds is
the time an event covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import Event, call, host, kernel, write

NAMES = {
    "gemm": "COMPUTATION",
    "void relu<int>(int)": "COMPUTATION",
    "ncclDevKernel_AllReduce": "COMMUNICATION",
    "Memcpy HtoD (Pageable -> Device)": "MEMORY",
}


@st.composite
def gpu_events(draw: st.DrawFn) -> list[Event]:
    """Overlapping work on several devices and streams, some with launches, some of length 0."""
    events: list[Event] = []
    for number in range(draw(st.integers(0, 12))):
        name = draw(st.sampled_from(sorted(NAMES)))
        launched = draw(st.booleans())
        events.append(
            kernel(
                draw(st.integers(0, 40)),
                draw(st.integers(0, 9)),
                name=name,
                cat="gpu_memcpy" if NAMES[name] == "MEMORY" else "kernel",
                stream=draw(st.sampled_from([0, 7, 20])),
                device=draw(st.sampled_from([0, 0, 0, 1])),
                correlation=number + 1 if launched else None,
            )
        )
        if launched:
            events.append(call(draw(st.integers(0, 40)), draw(st.integers(0, 3)), number + 1))
    return draw(st.permutations(events))


jobs = st.lists(gpu_events(), min_size=1, max_size=3)


def open_job(folder: Any, ranks: list[list[Event]]) -> Job:
    """Write one file per rank and open them."""
    for number, events in enumerate(ranks):
        write(folder / f"rank-{number}.json", events)
    return open_trace(folder, progress=False)


def gpu_work(events: Iterable[Event], device: int | None = None) -> list[Event]:
    """GPU work, of one device or of all."""
    return [
        event
        for event in events
        if event["cat"] in ("kernel", "gpu_memcpy") and device in (None, event["args"]["device"])
    ]


def devices_of(events: Iterable[Event]) -> list[int]:
    """Devices with any work, ascending."""
    return sorted({event["args"]["device"] for event in gpu_work(events)})


def microseconds(events: Iterable[Event], *types: str) -> set[int]:
    """Microseconds in which an event of the given types (or of any) runs."""
    return {
        time
        for event in events
        if not types or NAMES[event["name"]] in types
        for time in range(event["ts"], event["ts"] + event["dur"])
    }


def span(events: list[Event]) -> int:
    """First start to last end in µs."""
    if not events:
        return 0
    return max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)


@st.composite
def launched_events(draw: st.DrawFn) -> list[Event]:
    """Calls that launch one operation, or a graph of several; calls within calls; lost launches."""
    events: list[Event] = []
    for number in range(draw(st.integers(0, 8))):
        begin, length = draw(st.integers(0, 60)), draw(st.integers(0, 6))
        graph = draw(st.integers(0, 5)) == 0
        name = "cudaGraphLaunch" if graph else draw(st.sampled_from(["cudaLaunchKernel", "hip"]))
        if draw(st.integers(0, 4)):
            events.append(call(begin, length, number + 1, name=name))
            if length > 1 and draw(st.booleans()):
                inner = call(begin, length, number + 1, name="cuLaunchKernel", cat="cuda_driver")
                inner["ts"], inner["dur"] = begin + 1, length - 2
                events.append(inner)
            if draw(st.booleans()):
                operator = host(max(begin - 2, 0), length + 4, draw(st.sampled_from(["a", "b"])))
                events.append(operator)
        for _ in range(draw(st.integers(2, 4)) if graph else 1):
            work = draw(st.sampled_from(sorted(NAMES)))
            events.append(
                kernel(
                    draw(st.integers(0, 80)),
                    draw(st.integers(0, 9)),
                    name=work,
                    cat="gpu_memcpy" if NAMES[work] == "MEMORY" else "kernel",
                    stream=draw(st.sampled_from([0, 7])),
                    device=draw(st.sampled_from([0, 0, 1])),
                    correlation=number + 1,
                )
            )
    return draw(st.permutations(unlike(events)))


def unlike(events: Iterable[Event]) -> list[Event]:
    """Events that differ from each other: those that are in a file twice count once."""
    return [*{repr(sorted(event.items(), key=str)): event for event in events}.values()]


launched_jobs = st.lists(launched_events(), min_size=1, max_size=2)


def launching_call(events: Iterable[Event], operation: Event) -> Event | None:
    """Outermost call with the correlation of a GPU operation: the earliest, then the longest."""
    correlation = operation["args"].get("correlation")
    calls = [
        event
        for event in events
        if event["cat"] in ("cuda_runtime", "cuda_driver")
        and event["args"]["correlation"] == correlation
    ]
    return min(calls, key=lambda each: (each["ts"], -each["dur"]), default=None)


LAUNCH_APIS = {
    "cudaLaunchKernel": "cudaLaunchKernel",
    "cudaLaunchKernelExC_v11060": "cudaLaunchKernelExC",
    "cuLaunchKernelEx": "cuLaunchKernelEx",
    "cudaLaunchCooperativeKernel_ptsz_v9000": "cudaLaunchCooperativeKernel",
    "hipModuleLaunchKernel": "hipModuleLaunchKernel",
    "cudaGraphLaunch": "cudaGraphLaunch",
    "cudaGraphLaunch_v10000": "cudaGraphLaunch",
}
"""Calls as traces name them, and without what is version and variant."""

KINDS = ("kernel", "kernel", "kernel", "gpu_memcpy", "gpu_memset")


@dataclass
class Launch:
    """Work, and the call that launches it; None where that is not in the trace."""

    call: Event | None
    work: list[Event]
    around: list[Event]

    @property
    def kernels(self) -> list[Event]:
        """The kernels that it launches."""
        return [event for event in self.work if event["cat"] == "kernel"]

    @property
    def events(self) -> list[Event]:
        """All events of the launch."""
        return [*([self.call] if self.call else []), *self.around, *self.work]


@st.composite
def launches(draw: st.DrawFn) -> list[Launch]:
    """Launches of threads of up to two processes, with long kernels on several streams.

    Each process has its own device. Correlation ids collide between processes; the first one
    of each process does not, so that it is known which process uses which device.
    """
    found: list[Launch] = []
    for pid, device in ((100, 0), (200, 1))[: draw(st.integers(1, 2))]:
        found.append(_launch(draw, pid, device, 1000 + pid, launched=True))
        for correlation in range(1, draw(st.integers(1, 9))):
            launched = draw(st.integers(0, 5)) > 0
            number = correlation if launched else 10 * pid + correlation
            found.append(_launch(draw, pid, device, number, launched=launched))
    return found


def _launch(draw: st.DrawFn, pid: int, device: int, correlation: int, *, launched: bool) -> Launch:
    name = draw(st.sampled_from(sorted(LAUNCH_APIS)))
    begin, length = draw(st.integers(0, 60)), draw(st.integers(0, 9))
    category = "cuda_driver" if name.startswith("cu") and name[2].isupper() else "cuda_runtime"
    tid = draw(st.sampled_from([1, 2]))
    identity = {"pid": pid, "tid": tid}
    around = []
    if launched and category == "cuda_runtime" and length > 1 and draw(st.booleans()):
        inner = {"name": "cuLaunchKernel", "cat": "cuda_driver", **identity}
        around = [call(begin + 1, length - 2, correlation, **inner)]
    work = [
        kernel(
            draw(st.integers(0, 80)),
            draw(st.integers(0, 40)),
            name=draw(st.sampled_from(["gemm", "relu"])),
            cat=draw(st.sampled_from(KINDS)),
            stream=draw(st.sampled_from([0, 7])),
            device=device,
            correlation=correlation,
        )
        for _ in range(draw(st.integers(1, 3)) if "Graph" in name else 1)
    ]
    outer = call(begin, length, correlation, name=name, cat=category, **identity)
    return Launch(outer if launched else None, unlike(work), around)


@st.composite
def drawn_launches(draw: st.DrawFn) -> tuple[list[Launch], list[Event]]:
    """Launches, and their events in the order of the file."""
    found = draw(launches())
    return found, draw(st.permutations([event for each in found for event in each.events]))
