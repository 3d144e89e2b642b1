"""The module and the phase of each call, and the forward operator of each backward operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.calls import Calls, calls_of, nearest_above, nearest_at_or_above
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD
from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind, SideTable
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

MODULE: Final = re.compile(r"^nn\.Module: (?!GraphModule)")
"""Frames of modules. ``GraphModule`` is what torch.compile makes of them, and does not count."""

COMPILED_MODULE: Final = re.compile(r"^nn\.Module: GraphModule")

OPTIMIZER: Final = re.compile(r"^Optimizer\.")

NO_REGION: Final = re.compile(
    r"^(Optimizer\.|enumerate\(DataLoader\)|nccl:"
    r"|(cu|cuda|cublas|cublasLt|cudnn|cufft|cusolver|cusparse|nccl|hip|rccl)[A-Z]\w*$)"
)

PHASES: Final = ("forward", "backward", "optimizer", "other")
"""Phase that a call is part of, by code."""


SEPARATOR: Final = " › "
"""Separates the names of a path, outermost first."""

NO_MODULE: Final = -1

INSTANCE: Final = re.compile(r"(?<=.)_\d+$")
"""Number of an instance, at the end of the name of its class."""


def forward_places(rank: Rank) -> Int32Array:
    """Place of the forward operator of each backward operator, by place; -1 for all other calls.

    Among operators with a sequence number, those with a forward thread are backward operators. The
    forward operator has the same sequence number and process. It is the last to start before the
    first backward operator with this number and forward thread; of several that start together, it
    is the innermost.

    The profiler has its own numbers for threads. If forward operators with one sequence number run
    on several threads, a forward thread stands for the thread with most of its matches.
    """
    calls = calls_of(rank)
    unlinked = np.broadcast_to(np.int32(NO_PARENT), calls.forest.rows.size)
    table = rank.trace.events.side.get("operators")
    if table is None or "sequence_number" not in table.columns:
        return unlinked
    operators, is_backward = _numbered(calls, table)
    forward, backward = operators.take(~is_backward), operators.take(is_backward)
    if not (forward.place.size and backward.place.size):
        return unlinked
    keys = grouped(backward.forward_thread, backward.number)
    first = keys.reduce(np.minimum, backward.order)
    found = _matched(forward, backward.take(keys.first)._replace(order=first))
    linked = unlinked.copy()
    linked[backward.place[keys.order]] = np.repeat(found, keys.sizes)
    return linked


def forward_around(rank: Rank) -> Int32Array:
    """Forward operator of the innermost backward operator at or around each call."""
    forward = forward_places(rank)
    linked = nearest_at_or_above(calls_of(rank).forest, forward != NO_PARENT)
    return np.append(forward, np.int32(NO_PARENT))[linked]


class _Operators(NamedTuple):
    """Operators that have a sequence number."""

    place: Int64Array
    number: Int64Array
    """Equal for operators of one process with one sequence number."""
    order: Int64Array
    """Position of the start among all starts; equal starts share it."""
    forward_thread: Int64Array
    """Equal for operators of one process with one forward thread."""
    tid: Int64Array

    def take(self, chosen: Mask | Int64Array) -> _Operators:
        return _Operators(*(column[chosen] for column in self))


def _numbered(calls: Calls, table: SideTable) -> tuple[_Operators, Mask]:
    """Operators with a sequence number, and which of them are backward operators."""
    sequence = np.asarray(table.columns["sequence_number"])
    place = calls.places_of(table.rows)
    kept = np.flatnonzero((sequence >= 0) & (place >= 0))
    rows = table.rows[kept]
    pid = calls.events.pid[rows]
    forward_thread = np.asarray(table.columns["forward_thread"])[kept]
    _, order = np.unique(calls.events.start_ns[rows], return_inverse=True)
    operators = _Operators(
        place=place[kept],
        number=_numbers_of_pairs(pid, sequence[kept]),
        order=order,
        forward_thread=_numbers_of_pairs(pid, forward_thread),
        tid=calls.events.tid[rows],
    )
    return operators, forward_thread > 0


def _numbers_of_pairs(one: Int64Array, other: Int64Array) -> Int64Array:
    """One number for each distinct pair."""
    return grouped(one, other).of_rows


def _matched(forward: _Operators, keys: _Operators) -> Int64Array:
    """Place of the forward operator of each key; `keys.order` is from its first operator."""
    forward = forward.take(np.lexsort((forward.place, forward.order, forward.number)))
    match = _last_before(forward, keys)
    tid = np.append(forward.tid, NO_PARENT)[match]
    on_several = _numbers_on_several_threads(forward)
    sure = (match != NO_PARENT) & ~np.isin(keys.number, on_several)
    usual = _most_frequent(keys.forward_thread[sure], tid[sure])
    for thread in np.unique(keys.forward_thread[~sure & (match != NO_PARENT)]).tolist():
        asked = np.flatnonzero(~sure & (keys.forward_thread == thread))
        on_thread = np.flatnonzero(forward.tid == usual.get(thread, NO_PARENT))
        better = _last_before(forward.take(on_thread), keys.take(asked))
        match[asked] = np.where(
            better != NO_PARENT, np.append(on_thread, NO_PARENT)[better], match[asked]
        )
    return np.append(forward.place, NO_PARENT)[match]


def _last_before(forward: _Operators, keys: _Operators) -> Int64Array:
    """Position of the last forward operator with the number of each key that starts before it."""
    count = int(max(forward.order.max(initial=0), keys.order.max(initial=0))) + 1
    starts = forward.number * count + forward.order
    found = np.searchsorted(starts, keys.number * count + keys.order) - 1
    same = (found >= 0) & (np.append(forward.number, NO_PARENT)[found] == keys.number)
    return np.where(same, found, NO_PARENT)


def _numbers_on_several_threads(forward: _Operators) -> Int64Array:
    """Numbers of operators, sorted by number, that run on more than one thread."""
    changes = (np.diff(forward.number) == 0) & (np.diff(forward.tid) != 0)
    return np.unique(forward.number[1:][changes])


def _most_frequent(keys: Int64Array, values: Int64Array) -> dict[int, int]:
    """The most frequent value of each key."""
    pairs = grouped(keys, values)
    by_count = np.argsort(pairs.sizes, kind="stable")
    first = pairs.first[by_count]
    return dict(zip(keys[first].tolist(), values[first].tolist(), strict=True))


_FORWARD, _BACKWARD, _OPTIMIZER, _OTHER = range(len(PHASES))


@asked_once
def module_frames(rank: Rank) -> Mask:
    """Which calls are frames of modules, by place."""
    calls = calls_of(rank)
    return np.asarray((calls.kind == Kind.PYTHON) & calls.named(MODULE.search))


@asked_once
def region_marks(rank: Rank) -> Mask:
    """Which calls are annotations of the program itself, by place.

    Annotations that PyTorch makes around optimizers, data loaders and collectives do not count, nor
    do calls of CUDA's libraries that Nsight Systems exports as ranges.
    """
    calls = calls_of(rank)
    return np.asarray((calls.kind == Kind.ANNOTATION) & ~calls.named(NO_REGION.search))


class RecordedCalls(NamedTuple):
    """What is recorded, as far as names of calls show it before they are nested."""

    modules: bool
    """Modules, or annotations of the program itself, which stand in for them."""
    annotations: bool
    shapes: bool
    """Shapes of the inputs of operators."""


def recorded_calls(rank: Rank) -> RecordedCalls:
    """Whether the rank has modules, annotations and shapes; a capture may have all of them."""
    if rank.captures:
        return RecordedCalls(modules=True, annotations=True, shapes=True)
    events = rank.trace.events
    ranges = events.rows_of(Kind.ANNOTATION, Kind.GPU_ANNOTATION)
    own = ranges[~rank.names_of_marks[events.name.codes[ranges]]]
    frames = events.rows_of(Kind.PYTHON)
    has_regions = not events.named(own, NO_REGION).all()
    codes, texts = events.texts_at("operators", "input_dims", events.rows_of(Kind.CPU_OP))
    return RecordedCalls(
        modules=has_regions or bool(events.named(frames, MODULE).any()),
        annotations=own.size > 0,
        shapes=any(texts[code].strip("[] \n") for code in np.unique(codes).tolist() if code >= 0),
    )


def module_places(rank: Rank) -> Int32Array:
    """Place of the module frame that each call belongs to, by place; -1 for none.

    It is the innermost frame ``nn.Module: X`` at or around the call. If there is none, a call below
    a backward operator belongs to the module of the forward operator that this differentiates.
    """
    return rank.remember(_places, module_frames)


def region_places(rank: Rank) -> Int32Array:
    """Place of the region that each call belongs to, found like its module."""
    return rank.remember(_places, region_marks)


@asked_once
def phases(rank: Rank) -> Int8Array:
    """Position in `PHASES` of the phase of each call, by place.

    Backward is what runs below ``autograd::engine::…``, or has the module of the forward operator
    that it differentiates; forward is what has a module of its own; optimizer is what runs below
    ``Optimizer.…``.
    """
    calls = calls_of(rank)
    own, module = _innermost(rank, module_frames), module_places(rank)
    phase = np.full(own.size, _OTHER, dtype=np.int8)
    phase[calls.forest.at_or_below(calls.named(OPTIMIZER.search))] = _OPTIMIZER
    phase[module != NO_PARENT] = _FORWARD
    in_autograd = calls.forest.at_or_below(
        (calls.kind == Kind.CPU_OP) & calls.named(AUTOGRAD_THREAD.search)
    )
    phase[in_autograd | ((module != NO_PARENT) & (own == NO_PARENT))] = _BACKWARD
    return phase


def _innermost(rank: Rank, of: Callable[[Rank], Mask]) -> Int32Array:
    return nearest_at_or_above(calls_of(rank).forest, of(rank))


def _places(rank: Rank, of: Callable[[Rank], Mask]) -> Int32Array:
    own = _innermost(rank, of)
    if not (own != NO_PARENT).any():
        return own
    of_forward = np.append(own, np.int32(NO_PARENT))[forward_around(rank)]
    return np.where(own != NO_PARENT, own, of_forward)


class ModulePaths(NamedTuple):
    """Paths of modules by code."""

    codes: Int32Array
    """Code of each call's path, by place; `NO_MODULE` outside any module."""
    paths: tuple[str, ...]
    """Paths by code; different calls of a module share one."""

    def at(self, places: Int64Array) -> Int64Array:
        """Code of the path at some places, `NO_MODULE` at place -1."""
        return np.append(self.codes, np.int32(NO_MODULE))[places].astype(np.int64)


@asked_once
def module_paths(rank: Rank) -> ModulePaths:
    """Path of the module of each call of a rank."""
    calls, module = calls_of(rank), module_places(rank)
    frames = (calls.kind == Kind.PYTHON) & calls.named(MODULE.search)
    if not frames.any():
        return ModulePaths(module, ())  # NO_PARENT everywhere, which equals NO_MODULE
    above = nearest_above(calls.forest, frames)
    names = rank.trace.events.name.values
    codes: dict[str, int] = {}
    text_at: dict[int, str] = {NO_PARENT: ""}
    code_at = np.full(module.size + 1, NO_MODULE, dtype=np.int32)
    for place in np.flatnonzero(frames).tolist():
        own = MODULE.sub("", names[int(calls.name[place])])
        around = text_at[int(above[place])]
        text_at[place] = path = f"{around}{SEPARATOR}{own}" if around else own
        code_at[place] = codes.setdefault(path, len(codes))
    return ModulePaths(code_at[module], tuple(codes))


def has_modules(rank: Rank) -> bool:
    """Whether modules are recorded at all."""
    return bool(module_paths(rank).paths)


def in_modules(rank: Rank, wanted: Iterable[str]) -> Mask:
    """Which calls belong to one of some modules, or to a module inside it, by place.

    `wanted` holds paths as in `ModulePaths`, or paths of classes: names without instance numbers.
    """
    found = module_paths(rank)
    roots = {f"{each}{SEPARATOR}" for each in wanted}
    inside = [
        any(f"{each}{SEPARATOR}".startswith(tuple(roots)) for each in (path, of_classes(path)))
        for path in found.paths
    ]
    return np.append(np.array(inside, dtype=np.bool_), np.False_)[found.codes]


def of_classes(path: str) -> str:
    """A path with names of classes instead of instances.

    Examples
    --------
    >>> of_classes("Net_0 › Linear_12")
    'Net › Linear'
    """
    return SEPARATOR.join(INSTANCE.sub("", name) for name in path.split(SEPARATOR))
