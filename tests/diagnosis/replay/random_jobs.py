"""Small random jobs for the replay: what host, streams and ranks do is simulated, then written.

A seed stands for a job of 1–3 ranks whose threads launch work on a few streams, wait for it in all
ways that the replay knows, and meet other ranks in collectives. All that a rank draws is drawn
before it is simulated, so that it can be simulated again with what the other ranks did. Whole ns.

Nothing here shares code with the package.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.collective_jobs import KERNELS, Operation, all_fields
from tests.kineto_text import Event, call, kernel, step, write

FIRST_NS = 5_000_000
COMMUNICATION_STREAM = 20
STREAMS = (7, 13, 17)
THREADS = (100, 101)
ALONE = "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
KERNEL_NAMES = ("gemm", "void relu<float>(float*)", "softmax_warp_forward", "layer_norm")
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel")
SYNCHRONISING = ("stream", "device", "event", "copy", "free")


@dataclass(frozen=True)
class Do:
    """What a thread does next; all times in ns."""

    what: str
    work: int = 0
    """Of the host before the call."""

    thread: int = THREADS[0]
    name: str = ""
    length: int = 0
    """Of the call itself, without waiting."""

    back: int = 0
    """From the end of what is waited for to the end of the call; may be negative for copies."""

    stream: int = STREAMS[0]
    other: int = STREAMS[0]
    latency: int = 0
    gap: int = 0
    duration: int = 0
    is_recorded: bool = True
    """Whether the call is in the trace."""

    overlaps: bool = False
    kernels: tuple[tuple[int, int, int], ...] = ()
    """Stream, gap and duration of each kernel of a graph."""

    number: int = -1


@dataclass(frozen=True)
class Collective:
    name: str
    transfer: int


@dataclass
class Plan:
    """A whole job before it runs."""

    programs: dict[int, list[list[Do]]]
    """Of each rank, a list for each thread that runs by itself."""

    collectives: list[Collective]
    marks: int
    has_sync_rows: bool
    includes_last: bool


class Draw:
    """Random lengths, all of them whole µs in some jobs, in which there are many ties."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.grain = 1000 if seed % 6 == 5 else 1

    def ns(self, least: int, most: int) -> int:
        return self.random.randint(least, most) // self.grain * self.grain

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def latency(self) -> int:
        return self.ns(30_000, 90_000) if self.chance(0.1) else self.ns(3_000, 9_000)

    def gap(self) -> int:
        return self.ns(5_000, 25_000) if self.chance(0.1) else self.ns(0, 2_500)

    def duration(self) -> int:
        return self.random.choice([self.ns(1_000, 4_000), self.ns(4_000, 60_000)])

    def host(self) -> int:
        return self.random.choice([self.ns(500, 4_000), self.ns(2_000, 30_000)])


def plan(seed: int, *, ranks: int | None = None, collectives: int | None = None) -> Plan:
    """Draw a job."""
    draw = Draw(seed)
    count = ranks or draw.random.randint(1, 3)
    meetings = draw.random.randint(0, 2) if collectives is None else collectives
    if count == 1:
        meetings = 0
    made = [
        Collective(
            draw.random.choice(["allreduce", "_allgather_base", "broadcast"]),
            draw.ns(9_000, 40_000),
        )
        for _ in range(meetings)
    ]
    marks = draw.random.randint(0, 3)
    return Plan(
        programs={rank: _programs(draw, meetings, marks) for rank in range(count)},
        collectives=made,
        marks=marks,
        has_sync_rows=draw.chance(0.5),
        includes_last=draw.chance(0.5),
    )


def _programs(draw: Draw, meetings: int, marks: int) -> list[list[Do]]:
    streams = STREAMS[: draw.random.randint(1, len(STREAMS))]
    threads = THREADS[: draw.random.randint(1, len(THREADS))]
    launches = draw.random.randint(3, 25 - meetings)
    own = launches // 2 if len(threads) > 1 and draw.chance(0.4) else 0
    main = _program(draw, launches - own, streams, THREADS[:1] if own else threads)
    for number in range(meetings):
        at = len(main) * (number + 1) // (meetings + 1) + number
        main.insert(at, _collective(draw, number))
    positions = sorted(draw.random.sample(range(len(main) + 1), min(marks, len(main) + 1)))
    for number, at in reversed([*enumerate(positions)]):
        main.insert(at, Do("mark", number=number))
        if number == 0:
            main.insert(at + 1, _launch(draw, streams, THREADS[0]))
    return [main, _program(draw, own, streams[-1:], THREADS[1:])] if own else [main]


def _program(
    draw: Draw, launches: int, streams: tuple[int, ...], threads: tuple[int, ...]
) -> list[Do]:
    """Launches and what is between them; thread hands over to thread."""
    found: list[Do] = []
    thread = threads[0]
    for _ in range(launches):
        if draw.chance(0.2):
            thread = draw.random.choice(threads)
        if len(streams) > 1 and draw.chance(0.2):
            found += _wait_for_other_stream(draw, streams, thread)
        found.append(_launch(draw, streams, thread))
        if draw.chance(0.2):
            found += _synchronise(draw, streams, thread)
    return found


def _launch(draw: Draw, streams: tuple[int, ...], thread: int) -> Do:
    common = {
        "work": draw.host(),
        "thread": thread,
        "stream": draw.random.choice(streams),
        "length": draw.ns(2_000, 8_000),
        "latency": draw.latency(),
        "gap": draw.gap(),
        "duration": draw.duration(),
    }
    kind = draw.random.random()
    if kind < 0.12:
        kernels = tuple(
            (draw.random.choice(streams), draw.gap(), draw.duration())
            for _ in range(draw.random.randint(2, 4))
        )
        return Do("graph", name="cudaGraphLaunch", kernels=kernels, **common)
    if kind < 0.2:
        return Do("async copy", name="cudaMemcpyAsync", **common)
    if kind < 0.25:
        return Do("launch", name=ALONE, **common)
    return Do(
        "launch",
        name=draw.random.choice(KERNEL_NAMES),
        is_recorded=not draw.chance(0.08),
        overlaps=draw.chance(0.08),
        **common,
    )


def _collective(draw: Draw, number: int) -> Do:
    return Do(
        "collective",
        work=draw.host(),
        stream=COMMUNICATION_STREAM,
        length=draw.ns(4_000, 9_000),
        latency=draw.latency(),
        gap=draw.gap(),
        number=number,
    )


def _wait_for_other_stream(draw: Draw, streams: tuple[int, ...], thread: int) -> list[Do]:
    one, other = draw.random.sample(streams, 2)
    length = draw.ns(500, 1_500)
    return [
        Do("record", work=draw.ns(300, 900), thread=thread, stream=one, length=length),
        Do("wait", work=draw.ns(300, 900), thread=thread, stream=other, other=one, length=length),
    ]


def _synchronise(draw: Draw, streams: tuple[int, ...], thread: int) -> list[Do]:
    kind = draw.random.choice(SYNCHRONISING)
    stream = draw.random.choice(streams)
    sync = Do(
        f"{kind} sync",
        work=draw.host(),
        thread=thread,
        stream=stream,
        length=draw.ns(1_500, 5_000),
        back=draw.ns(1_000, 9_000),
    )
    if kind == "event":
        record = Do("record", work=500, thread=thread, stream=stream, length=1_000)
        return [record, sync]
    if kind == "copy":
        duration = draw.ns(8_000, 80_000)
        back = draw.ns(-duration // 8, 6_000)
        more = {"latency": draw.latency(), "gap": draw.gap(), "duration": duration, "back": back}
        return [Do(**{**vars(sync), **more})]
    return [sync]


@dataclass
class Rank:
    """One rank while it runs."""

    rank: int
    plan: Plan
    meetings: Mapping[int, int]
    """When the members of each collective have all begun, as far as that is known."""

    events: list[Event] = field(default_factory=list)
    arrivals: dict[int, int] = field(default_factory=dict)
    correlation: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """End of the last item launched on each stream."""

    starts: dict[int, int] = field(default_factory=dict)
    not_before: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """When what each stream was told to wait for is done."""

    records: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of each stream, when what was launched on it until it was recorded is done, and the call."""

    marks: list[int] = field(default_factory=list)

    def run(self) -> None:
        programs = [[*program] for program in self.plan.programs[self.rank]]
        now = [FIRST_NS + 3_000 * number for number in range(len(programs))]
        while any(programs):
            turn = min((at for at, left in enumerate(programs) if left), key=lambda at: now[at])
            now[turn] = self._do(programs[turn].pop(0), now[turn])
        bounds = [*self.marks, max(now) + 1_000]
        for number, (start, end) in enumerate(pairwise(bounds)):
            self.events.append(step(number, us(start), us(end - start)))

    def _do(self, do: Do, now: int) -> int:
        """Do one thing, and say when the thread goes on."""
        start = now + do.work
        if do.what == "mark":
            self.marks.append(now)
            return now
        self.correlation += 1
        doing = {
            "launch": self._launch,
            "async copy": self._launch,
            "collective": self._meet,
            "graph": self._launch_graph,
            "record": self._record,
            "wait": self._wait,
            "copy sync": self._copy,
        }
        return doing.get(do.what, self._synchronise)(do, start)

    def _call(self, do: Do, start: int, end: int, name: str) -> int:
        category = "cuda_driver" if name.startswith("cu") and name[2].isupper() else "cuda_runtime"
        self.events.append(
            call(
                us(start), us(end - start), self.correlation, name=name, cat=category, tid=do.thread
            )
        )
        return end

    def _place(self, do: Do, launched: int) -> int:
        """When the next item of a stream starts."""
        ready = max(launched + do.latency, self.not_before[do.stream])
        if do.stream not in self.ends:
            return ready
        if do.overlaps:
            return max(ready, self.starts[do.stream] + 500)
        return max(ready, self.ends[do.stream] + do.gap)

    def _item(
        self,
        do: Do,
        start: int,
        duration: int,
        *,
        name: str,
        stream: int | None = None,
        **more: Any,
    ) -> int:
        stream = do.stream if stream is None else stream
        self.starts[stream] = start
        self.ends[stream] = max(self.ends.get(stream, 0), start + duration)
        more["cat"] = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        self.events.append(
            kernel(
                us(start),
                us(duration),
                name=name,
                stream=stream,
                device=self.rank,
                correlation=self.correlation if do.is_recorded else None,
                **more,
            )
        )
        return start + duration

    def _launch(self, do: Do, now: int) -> int:
        is_copy = do.what == "async copy"
        name = "Memcpy HtoD (Pinned -> Device)" if is_copy else do.name
        self._item(do, self._place(do, now), do.duration, name=name)
        if not do.is_recorded:
            return now + do.length
        launch = do.name if is_copy else LAUNCHES[len(do.name) % len(LAUNCHES)]
        return self._call(do, now, now + do.length, launch)

    def _meet(self, do: Do, now: int) -> int:
        made = self.plan.collectives[do.number]
        start = self._place(do, now)
        self.arrivals[do.number] = start
        end = max(start, self.meetings.get(do.number, 0)) + made.transfer
        ranks = tuple(self.plan.programs)
        operation = Operation(made.name, "world", ranks, 4096, {}, end)
        fields = all_fields(operation, self.rank)
        self._item(do, start, end - start, name=KERNELS[made.name], **fields)
        return self._call(do, now, now + do.length, "cudaLaunchKernelExC")

    def _launch_graph(self, do: Do, now: int) -> int:
        self._call(do, now, now + do.length, do.name)
        start = self._place(do, now)
        end = self._item(do, start, do.duration, name="gemm")
        for stream, gap, duration in do.kernels:
            before = max(self.ends.get(stream, 0), end if stream != do.stream else start)
            self._item(do, before + gap, duration, name="softmax_warp_forward", stream=stream)
        return now + do.length

    def _record(self, do: Do, now: int) -> int:
        self.records[do.stream] = self.ends.get(do.stream, 0), self.correlation
        return self._call(do, now, now + do.length, "cudaEventRecordWithFlags")

    def _wait(self, do: Do, now: int) -> int:
        done, recorded_by = self.records[do.other]
        self.not_before[do.stream] = max(self.not_before[do.stream], done + 1_200)
        event = {
            "wait_on_stream": do.other,
            "wait_on_cuda_event_id": do.other,
            "wait_on_cuda_event_record_corr_id": recorded_by,
        }
        self._sync_row("Stream Wait Event", do.stream, now, now + do.length, **event)
        return self._call(do, now, now + do.length, "cudaStreamWaitEvent")

    def _sync_row(self, name: str, stream: int, start: int, end: int, **more: int) -> None:
        if self.plan.has_sync_rows:
            self.events.append(
                kernel(
                    us(start),
                    us(end - start),
                    name=name,
                    cat="cuda_sync",
                    stream=stream,
                    device=self.rank,
                    correlation=self.correlation,
                    **more,
                )
            )

    def _copy(self, do: Do, now: int) -> int:
        name = "Memcpy DtoH (Device -> Pageable)"
        end = self._item(do, self._place(do, now), do.duration, name=name)
        return self._call(do, now, max(now + do.length, end + do.back), "cudaMemcpyAsync")

    def _synchronise(self, do: Do, now: int) -> int:
        of_all = max(self.ends.values(), default=0)
        of_stream = self.ends.get(do.stream, 0)
        name, done = {
            "stream sync": ("cudaStreamSynchronize", of_stream),
            "device sync": ("cudaDeviceSynchronize", of_all),
            "event sync": ("cudaEventSynchronize", self.records.get(do.stream, (0, 0))[0]),
            "free sync": ("cudaFree", of_all),
        }[do.what]
        end = max(now + do.length, done + do.back if done > now else 0)
        if do.what == "stream sync":
            self._sync_row("Stream Sync", do.stream, now, end)
        if do.what == "device sync":
            self._sync_row("Context Sync", -1, now, end)
        return self._call(do, now, end, name)


def us(ns: int) -> float:
    """A time in µs, with all its digits."""
    return ns / 1000


def simulate(made: Plan) -> dict[int, list[Event]]:
    """Events of each rank: run all until no meeting moves any more."""
    meetings: dict[int, int] = {}
    while True:
        ranks = [Rank(rank, made, meetings) for rank in made.programs]
        for each in ranks:
            each.run()
        found = {
            number: max(each.arrivals[number] for each in ranks)
            for number in range(len(made.collectives))
        }
        if found == meetings:
            return {each.rank: each.events for each in ranks}
        meetings = found


def write_plan(folder: Path, made: Plan, shifts: Mapping[int, int] | None = None) -> Path:
    """Write the traces of a job, the clocks of some ranks shifted by so much (ns)."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, events in simulate(made).items():
        write(
            folder / f"rank-{rank}.json",
            [_shifted(each, (shifts or {}).get(rank, 0)) for each in events],
            layout="one_line",
            distributedInfo={"rank": rank, "world_size": len(made.programs)},
            baseTimeNanoseconds=1_700_000_000_000_000_000,
        )
    return folder


def _shifted(event: Event, shift: int) -> Event:
    return {**event, "ts": us(round(event["ts"] * 1000) + shift)}


def open_random(folder: Path, seed: int, **asked: int) -> Job:
    """Write and open the job of a seed."""
    made = plan(seed, **asked)
    return open_plan(write_plan(folder / f"{seed}", made), made)


def open_plan(folder: Path, made: Plan) -> Job:
    """Open what was written of a plan."""
    return open_trace(folder, include_last_profiler_step=made.includes_last, progress=False)
