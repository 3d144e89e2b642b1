"""Idle owners straight from the events of the JSON, in plain Python.

Follows the words of the documentation and shares no code with the package: one idle interval after
the other, and every stretch of it by looking at the calls that run then.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.call_stacks import STEP, Call, cut
from tests.kineto_text import events_of

WORK = {"kernel", "concurrent_kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset"}
WORK |= {"mtia_ccp_events"}
NEITHER = {"cuda_sync", "gpu_user_annotation", "cuda_profiler_range", "trace", "overhead"}
KINDS = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "python_function": "python",
}
COMMUNICATION = re.compile(r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter", re.IGNORECASE)
MEMORY = re.compile(
    r"^(hip|cuda)?Mem(cpy|set)|^Copy(Host|Device)|^FillBuffer|_rocclr_|^dma", re.IGNORECASE
)

API_VERSION = r"(_v\d+|_ptsz|_ptds)*"
BLOCKING = re.compile(
    r"^(cuda|hip)(Device|Stream|Event|Ctx)Synchronize|^cu(Ctx|Stream|Event)Synchronize"
    rf"|^(cuda|hip)(Memcpy|MemcpyWithStream|Memset|Memcpy2D|Memcpy3D|MemcpyPeer){API_VERSION}$"
    rf"|^(cuda|hip)Memcpy(DtoH|HtoD|DtoD){API_VERSION}$|^cuMemcpy(DtoH|HtoD|DtoD)?(_v\d+)?$"
)
ON_THE_PATH = [
    (
        "profiler",
        None,
        (
            r"torch/(autograd/)?profiler|torch/profiler/|_(dis|en)able_profiler|_prepare_profiler"
            r"|^(cuda|cu|hip)Profiler(Start|Stop)"
        ),
    ),
    ("data_loading", None, r"DataLoader|dataloader_next|torch/utils/data/"),
    ("garbage_collection", None, r"^Python GC|^<built-in function collect>|^gc\.py"),
    (
        "compiling",
        None,
        (
            r"torch/_dynamo/convert_frame|torch/_inductor/(compile_fx|async_compile|select_algorithm)"
            r"|triton/compiler/|triton/testing\.py|do_bench"
        ),
    ),
    (
        "allocating",
        "api",
        (
            r"^(cuda|hip)(Malloc|Free|Host(Alloc|Free|Malloc|Register|Unregister))"
            r"|^cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|Address)"
        ),
    ),
    (
        "initialising",
        "api",
        (r"ModuleLoad|Library(Load|Get|Unload)|nvrtc|cuLink|FuncGetAttributes|hipModule(Get|Load)"),
    ),
]


SERVED = re.compile(r"execute_.*generation_\d+\(.*\)|step\[(DECODE|EXTEND|MIXED) .*\]").fullmatch
"""Names of the steps of a server."""


class RawIdle:
    """The idle time of one rank, from its events."""

    def __init__(self, events: list[dict[str, Any]], *, last_step: bool = False) -> None:
        self.work: list[dict[str, Any]] = []
        self.calls: list[Call] = []
        self.steps: list[Call] = []
        self.overhead: list[tuple[int, int]] = []
        self.code_loading: list[tuple[int, int]] = []
        self.call_of: dict[Any, Call] = {}
        for index, event in enumerate(events):
            if event.get("ph") == "X":
                self._add(event, index)
        self.threads = cut(self.calls)
        self.number = {id(each): int(STEP.match(each.name)[1]) for each in self.steps}
        self.serves = not self.steps
        if self.serves:
            self._add_server_steps()
        several = len({*self.number.values()}) > 1
        is_cut = several and not last_step
        self.last_start = max(each.start for each in self.steps) if is_cut else None
        self.numbers = self._analysed_steps(last_step=last_step)
        for each in self.work:
            each["call"] = self.call_of.get(each["correlation"])
        self.rows = cache(self._rows)

    def _add(self, event: dict[str, Any], index: int) -> None:
        category = str(event.get("cat", "")).lower()
        start = to_ns(event["ts"])
        end = start + to_ns(event.get("dur", 0))
        args = event.get("args") or {}
        if category in WORK:
            self.work.append(
                {
                    "name": event["name"],
                    "start": start,
                    "end": end,
                    "index": index,
                    "device": int(args.get("device", event["pid"])),
                    "stream": args.get("stream", event["tid"]),
                    "correlation": args.get("correlation"),
                    "is_kernel": "mem" not in category,
                    "has_fields": "Collective name" in args,
                }
            )
        elif category == "overhead":
            loads = re.search("Module Loading|Function Loading|Driver Compiler", event["name"])
            (self.code_loading if loads else self.overhead).append((start, end))
        elif category not in NEITHER:
            is_api = category.endswith(("runtime", "driver"))
            kind = "api" if is_api else KINDS.get(category, "other")
            call = Call(event["name"], kind, event["pid"], event["tid"], start, end, index)
            self.calls.append(call)
            if STEP.match(call.name) and kind in ("op", "annotation"):
                self.steps.append(call)
            correlation = args.get("correlation")
            if is_api and correlation is not None:
                known = self.call_of.get(correlation, call)
                order = [(each.start, each.start - each.end) for each in (call, known)]
                self.call_of[correlation] = call if order[0] <= order[1] else known

    def _add_server_steps(self) -> None:
        """Outermost spans of a server, one after another: each lasts until the next."""
        spans = [each for each in self.calls if each.kind == "annotation" and SERVED(each.name)]
        for each in sorted(spans, key=lambda each: (each.start, -each.end)):
            if not self.steps or each.start >= self.steps[-1].end:
                self.steps.append(each)
        starts = [each.start for each in self.steps[1:]]
        ends = [*starts, *(each.end for each in self.steps[-1:])]
        self.steps = [replace(each, end=end) for each, end in zip(self.steps, ends, strict=True)]
        self.number = {id(each): place for place, each in enumerate(self.steps)}

    def _analysed_steps(self, *, last_step: bool) -> list[int]:
        self.steps.sort(key=lambda each: (each.start, each.index))
        numbers = list(dict.fromkeys(self.number[id(each)] for each in self.steps))
        if len(numbers) < 2 or last_step:
            return numbers
        latest = max(each.start for each in self.steps)
        return [
            number
            for number in numbers
            if any(self.number[id(s)] == number and s.start < latest for s in self.steps)
        ]

    @cached_property
    def marks(self) -> list[Call]:
        """Marks of the analysed steps."""
        bound = self.last_start
        return [each for each in self.steps if bound is None or each.start < bound]

    @cached_property
    def analysed(self) -> list[dict[str, Any]]:
        """GPU work that is analysed."""
        bound = self.last_start
        if bound is None:
            return self.work
        return [e for e in self.work if (e["call"].start if e["call"] else e["start"]) < bound]

    @cached_property
    def window(self) -> tuple[int, int]:
        """First and last ns that are accounted for."""
        if self.marks:
            ends = [each.end for each in self.marks] + [each["end"] for each in self.analysed]
            return min(each.start for each in self.marks), max(ends)
        calls = [each for each in self.calls if not STEP.match(each.name)]
        starts = [each.start for each in calls] + [each["start"] for each in self.work]
        ends = [each.end for each in calls] + [each["end"] for each in self.work]
        return min(starts, default=0), max(ends, default=0)

    def begin_on(self, device: int) -> int:
        """First ns of a device: none of what was launched before the recording."""
        return max([self.window[0], *self.unseen_until(device)])

    def devices(self) -> list[int]:
        """Devices on which work is analysed."""
        return sorted({each["device"] for each in self.analysed})

    def gaps(self, device: int) -> list[tuple[int, int]]:
        """Idle intervals."""
        at, last = self.begin_on(device), self.window[1]
        found = []
        work = [each for each in self.work if each["device"] == device]
        for start, end in sorted((each["start"], each["end"]) for each in work):
            if end > start:
                if start > at:
                    found.append((at, min(start, last)))
                at = max(at, end)
        found.append((at, last))
        return [(start, end) for start, end in found if end > start]

    def main_thread(self, device: int) -> tuple[Any, Any] | None:
        """Thread of the first step, else the one that launches most."""
        if self.marks:
            return self.marks[0].pid, self.marks[0].tid
        launches = Counter(
            (each["call"].pid, each["call"].tid)
            for each in self.analysed
            if each["device"] == device and each["call"]
        )
        return max(sorted(launches, key=str), key=launches.get, default=None)

    def _rows(self, device: int) -> list[dict[str, Any]]:
        """Stretches of idle time with the call that owns each, and its path of names."""
        first = self.begin_on(device)
        by_start, by_end = defaultdict(list), defaultdict(list)
        for each in self.work:
            if each["device"] == device:
                by_start[each["start"]].append(each)
                by_end[each["end"]].append(each)
        main, bounds, rows = self.main_thread(device), self.step_bounds(device), []
        for start, end in self.gaps(device):
            after, before = self._next(by_start[end]), self._previous(by_end[start])
            part = "tail" if after is None else "between"
            part = "head" if after and start == first and before is None else part
            for cause, owner, first, last in self._of_gap(main, start, end, after, before):
                path = None if owner is None else names(owner)
                for step, ns in self._by_step(first, last, bounds):
                    where = {"gap": start, "part": part, "step": step}
                    rows.append({**where, "cause": cause, "owner": owner, "path": path, "ns": ns})
        return rows

    @staticmethod
    def _by_step(
        start: int, end: int, bounds: list[tuple[int, int, int]]
    ) -> Iterator[tuple[int, int]]:
        """Parts of some time in each step (-1 in none); one may end inside by a kernel of 0 ns."""
        last = bounds[-1][2] if bounds else start
        outside = [(-1, start, bounds[0][1] if bounds else start), (-1, max(start, last), end)]
        for number, first, last in [*outside, *bounds]:
            inside = min(end, last) - max(start, first)
            if inside > 0:
                yield number, inside

    def _next(self, work: list[dict[str, Any]]) -> dict[str, Any] | None:
        def order(each):
            launched = each["call"].start if each["call"] else float("inf")
            return each["end"] == each["start"], launched, each["index"]

        return min(work, key=order, default=None)

    def _previous(self, work: list[dict[str, Any]]) -> dict[str, Any] | None:
        return max(work, key=lambda each: (each["start"], each["index"]), default=None)

    def step_bounds(self, device: int) -> list[tuple[int, int, int]]:
        """Number, begin and end of each step on the device; none without marks."""
        marks: dict[int, int] = {}
        for each in self.marks:
            marks.setdefault(self.number[id(each)], each.start)
        order = sorted(marks, key=marks.get)
        starts = [marks[number] for number in order]
        ends: dict[int, dict[bool, int]] = {number: {} for number in order}
        known = self._has_launches(device)
        for each in self.analysed:
            if each["device"] == device and (each["call"] or not known) and order:
                asked = each["call"].start if each["call"] else each["start"]
                place = bisect_right(starts, asked) - 1
                if place < 0 and known:
                    continue
                place = max(place, 0)
                last_of = ends[order[place]]
                # no step of a server follows the last one, which would begin with what ends it
                is_last = self.serves and self.last_start is None and place == len(order) - 1
                computes = is_last or self._computes(each)
                if not computes and len(order) == 1 and not self.serves:
                    computes = self._is_waited_for(each, device)
                last_of[computes] = max(last_of.get(computes, 0), each["end"])
        reached, bounds = self._free_from(device), []
        for number in order:
            last = ends[number].get(True, ends[number].get(False, 0))
            bounds.append((number, reached, max(reached, last)))
            reached = bounds[-1][2]
        return bounds

    def _is_waited_for(self, work: dict[str, Any], device: int) -> bool:
        """Whether the host waits for it in the mark of a step that computes in its first half."""
        begin, length = self.marks[0].start, sum(each.end - each.start for each in self.marks)
        known = self._has_launches(device)
        computed = [
            each["end"]
            for each in self.analysed
            if each["device"] == device
            and self._computes(each)
            and (each["call"].start >= begin if each["call"] else not known)
        ]
        if 2 * (max(computed, default=begin) - begin) >= length:
            return False
        end = min(work["end"], begin + length)
        waits = (each for each in self.calls if each.kind == "api" and BLOCKING.search(each.name))
        return work["end"] == end and any(each.start <= end < each.end for each in waits)

    def _has_launches(self, device: int) -> bool:
        """Whether any launch of the work of the device is recorded."""
        return any(each["call"] for each in self.work if each["device"] == device)

    def _free_from(self, device: int) -> int:
        """When what was launched before the first step has been computed."""
        if not self._has_launches(device):
            return max([self.window[0], *self.unseen_until(device)])
        own, others = [], []
        for each in self.work:
            if each["device"] == device and self._computes(each):
                in_steps = each["call"] and each["call"].start >= self.window[0]
                (own if in_steps else others).append(each)
        first = min((each["start"] for each in own), default=self.window[1])
        until, busy = defaultdict(lambda: first), Counter[Any]()
        for each in own:
            busy[each["stream"]] += each["end"] - each["start"]
        if busy:
            main = min(busy, key=lambda stream: (-busy[stream], stream))
            until[main] = min(each["start"] for each in own if each["stream"] == main)
        before = [each["end"] for each in others if each["start"] < until[each["stream"]]]
        return max([self.window[0], *before, *self.unseen_until(device)])

    def _lost_before(self, moment: int) -> bool:
        """Whether a kernel was launched before that is not in the trace."""
        with_work = {id(each["call"]) for each in self.work}
        launches = [e for e in self.calls if e.kind == "api" and holds("LaunchKernel", e.name)]
        return any(each.start < moment and id(each) not in with_work for each in launches)

    def unseen_until(self, device: int) -> Iterator[int]:
        """Starts of streams that are busy with what was launched before the recording."""
        streams: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for each in self.work:
            if each["device"] == device and each["end"] > each["start"]:
                streams[each["stream"]].append(each)
        for own in streams.values():
            first = min(own, key=lambda each: each["start"])
            if first["call"] is None or self._lost_before(first["call"].start):
                continue
            call, busy, reached = first["call"], 0, -(10**18)
            blocks = bool(self.numbers) and self.numbers[0] >= 2 and call.end > first["start"]
            wait = first["start"] - (call.start if blocks else call.end)
            every = itertools.chain(*streams.values())
            for each in sorted(every, key=lambda each: each["start"]):
                end = min(each["end"], first["start"])
                busy += max(end - max(each["start"], reached), 0)
                reached = max(reached, end)
            until_then = first["start"] - self._begins()
            is_long = wait >= 1_000_000 and 100 * busy <= wait and 2 * wait >= until_then
            if is_long and 2 * self._waits_again(streams) < wait:
                yield first["start"]

    @staticmethod
    def _waits_again(streams: dict[Any, list[dict[str, Any]]]) -> int:
        """The longest wait of work behind the first of its stream with nothing to wait for."""
        every, longest = [*itertools.chain(*streams.values())], 0
        for own in streams.values():
            first = min(own, key=lambda each: each["start"])
            for each in own:
                ends = [e["end"] for e in every if e["start"] < each["start"]]
                if each is not first and each["call"] and ends:
                    longest = max(longest, each["start"] - max(*ends, each["call"].end))
        return longest

    def _begins(self) -> int:
        works = [each["start"] for each in self.work]
        return min([*works, *(each.start for each in [*self.calls, *self.steps])])

    @staticmethod
    def _computes(work: dict[str, Any]) -> bool:
        name = work["name"]
        is_other = work["has_fields"] or holds(COMMUNICATION, name) or holds(MEMORY, name)
        return work["is_kernel"] and not is_other

    def _of_gap(self, main, start, end, after, before):
        if after is None:
            yield from self._host(main, main, start, end, drained=False)
            return
        call = after["call"] or self._late_behind(after, start)
        if call is None:
            yield "launch_not_recorded", None, start, end
            return
        if before is not None and before["call"] is call and "GraphLaunch" in call.name:
            yield "inside_graph", call, start, end
            return
        late = call.start > start
        reach = max(call.end, call.start + 15_000) if late else call.end
        thread = call.pid, call.tid
        drained = late and self._drained(thread, start)
        if late:
            yield from self._host(thread, main, start, min(end, call.start), drained=drained)
        begin, reach = max(start, call.start), min(end, reach)
        for first, last, _ in self._pieces_of(begin, reach, [], lambda _: None):
            yield self._cause(call, first, drained=drained), call, first, last
        if end > max(begin, reach):
            short = not late and end - start < 30_000
            cause = "between_kernels" if short else "dependency"
            yield cause, call, max(begin, reach), end

    def _late_behind(self, work: dict[str, Any], start: int) -> Call | None:
        """The launch of the next work of the stream, if it began after an interval did."""
        own = self._of_stream[work["device"], work["stream"]]
        place = next(place for place, each in enumerate(own) if each is work)
        before = [each["call"] for each in own[:place] if each["call"]]
        behind = [each["call"] for each in own[place:] if each["call"]]
        return behind[0] if before and behind and behind[0].start > start else None

    @cached_property
    def _of_stream(self) -> dict[Any, list[dict[str, Any]]]:
        found = defaultdict(list)
        for each in sorted(self.work, key=lambda each: (each["start"], each["index"])):
            found[each["device"], each["stream"]].append(each)
        return found

    def _drained(self, thread, moment: int) -> bool:
        return any(
            each.start < moment and moment - 1_000 <= each.end <= moment + 100_000
            for each in self._blocking[thread]
        )

    @cached_property
    def _blocking(self) -> dict[Any, list[Call]]:
        found = defaultdict(list)
        for each in self.calls:
            if each.kind == "api" and BLOCKING.search(each.name):
                found[each.pid, each.tid].append(each)
        return found

    @cached_property
    def _autograd(self) -> list[tuple[Any, Any]]:
        return sorted(
            thread
            for thread, calls in self.threads.items()
            if any(each.name.startswith("autograd::engine::") for each in calls)
        )

    def _host(self, thread, main, start, end, *, drained):
        asked = [thread, main, *self._autograd]
        for first, last, owner in self._pieces_of(
            start, end, asked, lambda time: self._owner(thread, main, time)
        ):
            cause = self._cause(owner, first, drained=drained)
            yield cause, owner, first, last

    def _pieces_of(self, start, end, threads, owner_at):
        """Cut where the innermost call of a thread changes, or the profiler begins or ends."""
        edges = {start, end}
        for times in [self._overhead_edges, *(self._edges(thread) for thread in threads)]:
            edges.update(times[bisect_left(times, start) : bisect_right(times, end)])
        ordered = sorted(edges)
        for first, last in pairwise(ordered):
            if start <= first < last <= end:
                yield first, last, owner_at(first)

    @cached_property
    def _overhead_edges(self) -> list[int]:
        return sorted({edge for each in (*self.overhead, *self.code_loading) for edge in each})

    def _edges(self, thread) -> list[int]:
        known = self._thread_edges
        if thread not in known:
            calls = self.threads.get(thread, [])
            known[thread] = sorted({edge for each in calls for edge in (each.start, each.cut_end)})
        return known[thread]

    @cached_property
    def _thread_edges(self) -> dict[Any, list[int]]:
        return {}

    @cached_property
    def _starts(self) -> dict[Any, list[int]]:
        return {thread: [each.start for each in calls] for thread, calls in self.threads.items()}

    def _innermost(self, thread, time: int) -> Call | None:
        if thread not in self.threads:
            return None
        place = bisect_right(self._starts[thread], time) - 1
        call = self.threads[thread][place] if place >= 0 else None
        while call is not None and call.cut_end <= time:
            call = call.parent
        return call

    def _owner(self, thread, main, time: int) -> Call | None:
        own = self._innermost(thread, time)
        if own is not None and thread != main:
            return own
        own = self._innermost(main, time)
        if own is not None and holds("run_backward|^## backward ##", own.name):
            for other in self._autograd:
                if other != main and (inner := self._innermost(other, time)) is not None:
                    return inner
        return own

    def _cause(self, owner: Call | None, time: int, *, drained: bool) -> str:
        return next(self._causes(owner, time, drained=drained))

    def _causes(self, owner: Call | None, time: int, *, drained: bool) -> Iterator[str]:
        """Causes that hold, the one that counts first."""
        place = bisect_right(self._overhead_edges, time) - 1
        yield from self._overhead_from[place] if place >= 0 else ()
        yield from self._on_the_path(owner)
        if drained:
            yield "synchronising"
        if owner is None:
            yield "nothing_recorded"
        elif owner.kind == "api":
            yield "launching"
        is_op = owner is not None and any(each.kind == "op" for each in owner.path)
        yield "operator" if is_op else "host_code"

    @cached_property
    def _overhead_from(self) -> list[list[str]]:
        """Causes from each edge of the profiler's overhead on, until the next."""
        edges = self._overhead_edges
        found: list[list[str]] = [[] for _ in edges]
        for cause, spans in (("profiler", self.overhead), ("initialising", self.code_loading)):
            for start, end in spans:
                for place in range(bisect_left(edges, start), bisect_left(edges, end)):
                    found[place].append(cause)
        return found

    def _on_the_path(self, owner: Call | None) -> list[str]:
        """Causes by the names of a call and those around it, whenever it is asked for."""
        known = self._known_paths
        if owner not in known:
            path = [] if owner is None else owner.path
            api = [each for each in path if each.kind == "api"]
            known[owner] = [
                cause
                for cause, kind, pattern in ON_THE_PATH
                if any(holds(pattern, each.name) for each in path if kind in (None, each.kind))
            ]
            if any(holds(BLOCKING.pattern, each.name) for each in api):
                known[owner].append("synchronising")
            slow = [each for each in api if each.end - each.start >= 1_000_000]
            if any(not holds("Launch|Memcpy|Memset", each.name) for each in slow):
                known[owner].append("initialising")
        return known[owner]

    @cached_property
    def _known_paths(self) -> dict[Call | None, list[str]]:
        return {}


@cache
def holds(pattern: str | re.Pattern[str], name: str) -> bool:
    """Whether a pattern is found in a name; the same few are asked for millions of times."""
    return re.search(pattern, name) is not None


def names(call: Call) -> tuple[str, ...]:
    """Names from outermost to innermost."""
    return tuple(each.name for each in call.path)


def to_ns(microseconds: Any) -> int:
    """Exact ns of a time in µs."""
    is_exact = isinstance(microseconds, int | Decimal)
    return int((microseconds if is_exact else Decimal(str(microseconds))) * 1000)


def read(path: Path) -> RawIdle:
    """The idle time of a file."""
    return RawIdle(events_of(path))
