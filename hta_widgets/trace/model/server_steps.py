"""Steps of an inference server, found by the spans that its engine writes around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Events, Kind

Phase = Literal["prefill", "decode", "mixed", "idle"]
"""What a step computes: only prompts, only running requests, both, or nothing."""


RUN_BATCH: Final = "scheduler.run_batch"
"""Range that SGLang opens before the span of a step, to prepare it: all its spans are one step."""


class StepSpan(NamedTuple):
    """What the name of a span says about one step of a server."""

    engine: str
    phase: Phase
    context_requests: int | None = None
    context_tokens: int | None = None
    """Requests whose prompts are computed, and their tokens; None if the name does not say so."""
    generation_requests: int | None = None
    generation_tokens: int | None = None
    """Requests that are already running, and tokens computed for them. A verifying step does not
    accept all of them."""
    is_part: bool = False
    """Whether this is the work of a draft model, which is part of a step."""
    number: int | None = None
    """Number of the step, as the engine counts."""


Parser = Callable[[str], StepSpan | None]

_N: Final = r"(\d{1,18})"
_VLLM: Final = re.compile(
    rf"execute_context_{_N}\({_N}(?:_\d+)?\)_generation_{_N}\({_N}(?:_\d+)?\)"
)
_VLLM_DETAILED: Final = re.compile(
    rf"execute_\d+_context_{_N}\(sq{_N}sk\d+sqsq\d+sqsk\d+\)"
    rf"_generation_{_N}\(sq{_N}sk\d+sqsq\d+sqsk\d+\)"
)
_VLLM_EARLIER: Final = re.compile(rf"execute_new_{_N}_cached_{_N}")
_SGLANG: Final = re.compile(r"step\[(\w+)((?: \w+=\d{1,18})*)\]")
_ATOM: Final = re.compile(rf"(prefill|decode)\[bs={_N}(?:/\d+)? tok={_N}(?: [^\]]*)?\]")
_TENSORRT_LLM: Final = re.compile(
    rf"\[Executor\] _forward_step {_N}: {_N} ctx reqs, (?:{_N} ctx tokens, )?{_N} gen reqs"
)
_PREFILL_MODES: Final = {"EXTEND", "PREFILL", "SPLIT_PREFILL", "DLLM_EXTEND"}
_DRAFT_MODES: Final = {"DRAFT_EXTEND", "DRAFT_EXTEND_V2", "DRAFT_LOOP"}


def _phase(context_requests: int, generation_requests: int) -> Phase:
    if context_requests and generation_requests:
        return "mixed"
    if context_requests:
        return "prefill"
    return "decode" if generation_requests else "idle"


def _vllm(name: str) -> StepSpan | None:
    if found := _VLLM.fullmatch(name) or _VLLM_DETAILED.fullmatch(name):
        context, tokens, generation, computed = map(int, found.groups())
        return StepSpan("vLLM", _phase(context, generation), context, tokens, generation, computed)
    if found := _VLLM_EARLIER.fullmatch(name):
        context, generation = map(int, found.groups())
        phase = _phase(context, generation)
        return StepSpan("vLLM", phase, context, generation_requests=generation)
    return None


def _sglang(name: str) -> StepSpan | None:
    found = _SGLANG.fullmatch(name)
    if found is None:
        return None
    mode = found[1].upper()
    says = {key: int(value) for key, value in (each.split("=") for each in found[2].split())}
    if mode == "IDLE":
        return StepSpan("SGLang", "idle", 0, 0, 0, 0)
    return _sglang_batch(mode, says) if "bs" in says else None  # "step[0]" may be anybody's


def _sglang_batch(mode: str, says: dict[str, int]) -> StepSpan:
    if mode in _DRAFT_MODES:
        return StepSpan("SGLang", "decode", is_part=True)
    if mode in _PREFILL_MODES:
        tokens = says.get("toks", says.get("c_sq"))
        return StepSpan("SGLang", "prefill", says["bs"], tokens, 0, 0)
    if mode == "MIXED":  # without counts, the split is not known
        return StepSpan(
            "SGLang",
            "mixed",
            says.get("c", says.get("ext")),
            says.get("c_sq"),
            says.get("g", says.get("dec")),
            says.get("g_sq"),
        )
    return StepSpan("SGLang", "decode", 0, 0, says["bs"], says.get("g_sq", says["bs"]))


def _atom(name: str) -> StepSpan | None:
    found = _ATOM.fullmatch(name)
    if found is None:
        return None
    requests, tokens = int(found[2]), int(found[3])
    if found[1] == "prefill":
        return StepSpan("ATOM", "prefill", requests, tokens, 0, 0)
    return StepSpan("ATOM", "decode", 0, 0, requests, tokens)


def _tensorrt_llm(name: str) -> StepSpan | None:
    found = _TENSORRT_LLM.fullmatch(name)
    if found is None:
        return None
    number, context, generation = int(found[1]), int(found[2]), int(found[4])
    tokens = None if found[3] is None else int(found[3])
    phase = _phase(context, generation)
    span = StepSpan("TensorRT-LLM", phase, context, tokens, generation, generation)
    return span._replace(number=number)


ENGINES: Final[dict[str, Parser]] = {
    "SGLang": _sglang,
    "ATOM": _atom,
    "TensorRT-LLM": _tensorrt_llm,
    "vLLM": _vllm,
}
"""Parser of each engine's names, which are matched as a whole.

vLLM is last, because AMD's builds of SGLang and ATOM write its names around their own, and the
first engine here that names a span is the one that ran.
"""


def step_span(name: str) -> StepSpan | None:
    """What a name says about a step of a server; None for any other name.

    Examples
    --------
    >>> step_span("execute_context_2(6144)_generation_3(3)")[:3]
    ('vLLM', 'mixed', 2)
    >>> step_span("step[DECODE bs=32]").generation_requests
    32
    >>> step_span("step[0]") is None
    True
    """
    return next((span for parse in ENGINES.values() if (span := parse(name))), None)


@dataclass(frozen=True, eq=False)
class ServerSteps:
    """Steps of one rank, ascending by start."""

    rows: Int64Array
    """Row of the span of each step."""
    number: Int64Array
    """0, 1, 2, …, or the numbers that the engine writes into the names."""
    start_ns: Times
    end_ns: Times
    """Host time of each step, in ns since the trace's origin. A step lasts until the next one
    starts, because tokens are sampled and sent after the span; the last one lasts to the end of its
    span. A step starts with the `RUN_BATCH` around its span, if that is recorded."""
    span_ns: Times
    """Start of the span itself; the time before it is scheduling."""
    spans: tuple[StepSpan, ...]
    idle_start_ns: Times
    idle_end_ns: Times
    """Iterations without a request, which are not steps, each up to the start of the next one."""

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.spans)


class _Found(NamedTuple):
    """A span that is not inside another one."""

    row: int
    start_ns: int
    span_ns: int
    end_ns: int
    batch: int
    span: StepSpan


def server_steps(events: Events) -> ServerSteps:
    """Find the steps of a server by the spans of the thread that has the most of them.

    A span inside another, or in the same `RUN_BATCH`, is not a step, but adds what the outer one
    does not say: AMD's builds of SGLang write vLLM's name around their own, and a draft model
    repeats the tokens of its batch.
    """
    rows = events.rows_of(Kind.ANNOTATION, Kind.CPU_OP)
    names, codes = events.name.values, events.name.codes[rows]
    spans = {code: span for code in distinct(codes).tolist() if (span := step_span(names[code]))}
    if not spans:
        return _steps([])
    rows = _of_one_thread(events, rows[np.isin(codes, [*spans])], spans)
    batches = _batches(events, rows)
    found: list[_Found] = []
    for row in rows[np.lexsort((-events.duration_ns[rows], events.start_ns[rows]))].tolist():
        span, start_ns = spans[int(events.name.codes[row])], int(events.start_ns[row])
        batch, begun_ns = _batch_at(batches, start_ns)
        last = found[-1] if found else None
        if last and (start_ns < last.end_ns or -1 < batch == last.batch):
            found[-1] = last._replace(span=_filled(last.span, span))
        elif not span.is_part:
            end_ns = start_ns + int(events.duration_ns[row])
            found.append(_Found(row, begun_ns, start_ns, end_ns, batch, span))
    return _steps(found)


def _of_one_thread(events: Events, rows: Int64Array, spans: dict[int, StepSpan]) -> Int64Array:
    working = np.isin(
        events.name.codes[rows],
        [code for code, span in spans.items() if span.phase != "idle" and not span.is_part],
    )
    threads = np.stack((events.pid[rows], events.tid[rows]), axis=1)[working]
    if not len(threads):
        return rows[:0]
    each, counts = np.unique(threads, axis=0, return_counts=True)
    pid, tid = each[np.argmax(counts)]
    is_own = (events.pid[rows] == pid) & (events.tid[rows] == tid)
    return rows[np.flatnonzero(is_own)]


def _batches(events: Events, spans: Int64Array) -> tuple[Times, Times]:
    """Starts and ends of `RUN_BATCH` on the thread of the spans, ascending."""
    rows = events.rows_of(Kind.ANNOTATION, Kind.CPU_OP)
    codes = [code for code, name in enumerate(events.name.values) if name == RUN_BATCH]
    rows = rows[np.isin(events.name.codes[rows], codes)]
    for column in (events.pid, events.tid):
        rows = rows[np.isin(column[rows], column[spans[:1]])]
    start_ns = np.sort(events.start_ns[rows])
    return start_ns, np.sort(events.start_ns[rows] + events.duration_ns[rows])


def _batch_at(batches: tuple[Times, Times], time_ns: int) -> tuple[int, int]:
    """Number of the batch that is open, and its start; -1 and the time itself for none."""
    starts, ends = batches
    place = int(np.searchsorted(starts, time_ns, side="right")) - 1
    if place < 0 or time_ns >= ends[place]:
        return -1, time_ns
    return place, int(starts[place])


def _filled(outer: StepSpan, inner: StepSpan) -> StepSpan:
    """What the outer span says, completed by the inner one."""
    if inner.is_part:
        return outer
    unknown = [name for name, value in outer._asdict().items() if value is None]
    says: dict[str, Any] = {name: getattr(inner, name) for name in unknown}
    says["engine"] = min(outer.engine, inner.engine, key=[*ENGINES].index)
    return outer._replace(**says)


def _steps(found: list[_Found]) -> ServerSteps:
    ends = [next_.start_ns for _, next_ in pairwise(found)] + [each.end_ns for each in found[-1:]]
    every = [*zip(found, ends, strict=True)]
    kept = [(each, end_ns) for each, end_ns in every if each.span.phase != "idle"]
    idle = [(each.start_ns, end_ns) for each, end_ns in every if each.span.phase == "idle"]
    steps = [each for each, _ in kept]
    numbers = [each.span.number for each in steps]
    stated = [number for number in numbers if number is not None]
    is_stated = len(stated) == len(steps) and all(a < b for a, b in pairwise(stated))
    return ServerSteps(
        rows=_int64([each.row for each in steps]),
        number=_int64(stated if is_stated else [*range(len(steps))]),
        start_ns=_int64([each.start_ns for each in steps]),
        end_ns=_int64([end_ns for _, end_ns in kept]),
        span_ns=_int64([each.span_ns for each in steps]),
        spans=tuple(each.span for each in steps),
        idle_start_ns=_int64([start_ns for start_ns, _ in idle]),
        idle_end_ns=_int64([end_ns for _, end_ns in idle]),
    )


MOST_APART: Final = 3
"""Most steps between the starts of two recordings of one server."""

FEWEST_ALIKE: Final = 4
"""Fewest equal names in a row that are more than chance."""


def first_steps(names: Mapping[int, Sequence[str]]) -> dict[int, int]:
    """Number of the first step of each rank, so that a step has the same number on all ranks.

    Ranks that share a model run the same steps, which their spans, in order, name. If one rank's
    recording starts later, its names are those of the others from there on::

        rank 0   prefill  decode 8  decode 9  decode 9     0  1  2  3
        rank 1            decode 8  decode 9  decode 9        1  2  3

    Empty if the ranks start with the same step, or if their names fit in several ways or in none,
    as with ranks that have requests of their own.
    """
    longest = max(names.values(), key=len, default=())
    behind = {rank: _steps_behind(longest, each) for rank, each in names.items()}
    least = min(behind.values(), default=0)
    return {rank: each - least for rank, each in behind.items()} if any(behind.values()) else {}


def _steps_behind(longest: Sequence[str], names: Sequence[str]) -> int:
    """Number of steps by which a recording starts later than the longest; 0 if it is unclear."""
    fits = []
    for behind in range(-MOST_APART, MOST_APART + 1):
        pairs = [*zip(longest[max(behind, 0) :], names[max(-behind, 0) :], strict=False)]
        if len(pairs) >= FEWEST_ALIKE and all(one == other for one, other in pairs):
            fits.append(behind)
    return fits[0] if len(fits) == 1 else 0


def _int64(values: list[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)
