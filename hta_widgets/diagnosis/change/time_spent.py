"""What the time of a rank's steps is spent on, down to the kernel, counting each instant once."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.device_steps import GAPS, DeviceSteps, device_steps
from hta_widgets.analyses.communication.partition import PARTS, RankSplit, work_by_part
from hta_widgets.analyses.compare import mangled_names
from hta_widgets.analyses.operators.operator_calls import SHAPES, shapes_of
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import module_paths, of_classes, region_places
from hta_widgets.arrays import Int64Array, IntArray
from hta_widgets.diagnosis.change.work_done import Amounts, work_done
from hta_widgets.grouping import grouped, numbered
from hta_widgets.intervals import Intervals, Times
from hta_widgets.names.normalise import normalised_kernel_name
from hta_widgets.names.readable import readable_name
from hta_widgets.names.shorten import short_name
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

KEYS: Final = ("part", "module", "operator", "shape", "kernel")
"""Columns that identify rows of `TimeSpent.table`, from the coarsest to the finest."""

GRAPHS: Final = "CUDA graphs"
"""One name for all graphs recorded as a whole, as their numbers differ from run to run."""

LONGEST_NAME: Final = 200
"""Most characters of a name; a longer one is kept as its beginning and a digest."""

WIDTH: Final = 60
_DIGITS: Final = re.compile(r"\d+")
_NONE: Final = -1


class TimeSpent(NamedTuple):
    """What the time of some steps of one rank is spent on."""

    table: pd.DataFrame
    """One row per ``part`` (one of `PARTS` except idle, or of `GAPS`), ``module`` (its path, or
    without modules the annotation with ``N`` for its numbers), ``operator``, ``shape`` (of the
    inputs, with their types) and ``kernel`` (normalised name; for idle time, the call that the host
    is in); all empty where not recorded. ``count`` is the number of pieces of work, or of idle
    time, and ``time_ns`` their time in this part. All rows add up exactly to the length of the
    steps, and the rows of a part to its column of `step_facts`."""
    kernels: pd.DataFrame
    """One row per ``kernel`` and ``step`` that launches it: ``count``, and ``total_ns``, the sum of
    durations, which may overlap."""
    labels: dict[str, str]
    """Names of kernels on screen, by their normalised names."""
    work: Amounts
    """What is done in this time."""


def time_spent(rank: Rank, split: RankSplit, steps: tuple[int, ...]) -> TimeSpent:
    """What the time of some steps of a rank is spent on; -1 alone stands for no steps."""
    found = device_steps(rank, split)
    names = _Names(rank)
    if found is None:
        empty = pd.DataFrame({name: pd.Series(dtype=object) for name in KEYS})
        none = pd.DataFrame({"kernel": pd.Series(dtype=object)})
        return TimeSpent(
            empty.assign(count=np.int64(0), time_ns=np.int64(0)),
            none.assign(step=np.int64(0), count=np.int64(0), total_ns=np.int64(0)),
            {},
            {},
        )
    chosen = np.flatnonzero(np.isin(found.window.steps, steps))
    table = names.table(_pieces(rank, found, split, chosen))
    kernels = _kernels(rank, found, chosen, names)
    return TimeSpent(table, kernels, names.labels(), work_done(rank, found, chosen))


def coded_pieces(
    rank: Rank, split: RankSplit, steps: tuple[int, ...]
) -> tuple[_Pieces, dict[str, _Coded]]:
    """The pieces of time of some steps, and the texts of each."""
    found = device_steps(rank, split)
    if found is None:
        none = np.zeros(0, dtype=np.int64)
        return _Pieces(*[none] * len(_Pieces._fields)), {name: (none, [""]) for name in KEYS}
    pieces = _pieces(rank, found, split, np.flatnonzero(np.isin(found.window.steps, steps)))
    return pieces, _Names(rank).coded(pieces)


class _Pieces(NamedTuple):
    """Pieces of time: the part, the call that owns each (-1 for none), and the kernel or call."""

    part: Int64Array
    place: IntArray
    name: Int64Array
    is_graph: Int64Array
    time_ns: Times
    start_ns: Times
    end_ns: Times


_ALL: Final = (*PARTS[:-1], *GAPS)


def _pieces(rank: Rank, found: DeviceSteps, split: RankSplit, chosen: Int64Array) -> _Pieces:
    pieces = [*_busy_pieces(rank, found, split, chosen), _idle_pieces(found, chosen)]
    return _Pieces(*map(np.concatenate, zip(*pieces, strict=True)))


def _busy_pieces(
    rank: Rank, found: DeviceSteps, split: RankSplit, chosen: Int64Array
) -> list[_Pieces]:
    pieces = []
    places = calls_of(rank).places_of(found.work.launch)
    earlier = Intervals.union([], [])
    for part, of_part in enumerate(work_by_part(found.work, split)):
        which, start_ns, end_ns = first_come(of_part.start_ns, of_part.end_ns)
        positions = of_part.positions[which]
        for step in chosen.tolist():
            lo = np.maximum(start_ns, found.edges[step])
            hi = np.minimum(end_ns, found.edges[step + 1])
            inside = np.flatnonzero(hi > lo)
            lo, hi, of_piece = lo[inside], hi[inside], positions[inside]
            left_ns = hi - lo - (earlier.covered_until(hi) - earlier.covered_until(lo))
            is_graph = found.work.type[of_piece] == KernelType.CUDA_GRAPH
            pieces.append(
                _Pieces(
                    np.full(of_piece.size, part),
                    places[of_piece],
                    found.work.name[of_piece].astype(np.int64),
                    is_graph.astype(np.int64),
                    left_ns,
                    lo,
                    hi,
                )
            )
        earlier = found.busy.covers[part]
    return pieces


def first_come(start_ns: Times, end_ns: Times) -> tuple[Int64Array, Times, Times]:
    """Give each instant to the interval that covers it and started first.

    Returns disjoint parts of the intervals, ascending: the interval, start and end of each part.

    Examples
    --------
    >>> which, start, end = first_come(np.array([0, 2, 5]), np.array([4, 9, 7]))
    >>> which.tolist(), start.tolist(), end.tolist()
    ([0, 1], [0, 4], [4, 9])
    """
    order = np.argsort(start_ns, kind="stable")
    first, last = start_ns[order], end_ns[order]
    reached = np.maximum.accumulate(last)
    own = first.copy()
    own[1:] = np.maximum(first[1:], reached[:-1])
    kept = np.flatnonzero(last > own)
    return order[kept], own[kept], last[kept]


def _idle_pieces(found: DeviceSteps, chosen: Int64Array) -> _Pieces:
    segments = found.gaps.segments
    step = np.searchsorted(found.edges, segments.start_ns, side="right") - 1
    is_kept = np.isin(step, chosen)
    own = segments.take(is_kept)
    return _Pieces(
        found.gaps.kind[is_kept].astype(np.int64) + len(PARTS) - 1,
        own.owner,
        np.full(own.owner.size, _NONE),
        np.zeros(own.owner.size, dtype=np.int64),
        own.length_ns,
        own.start_ns,
        own.end_ns,
    )


def _kernels(rank: Rank, found: DeviceSteps, chosen: Int64Array, names: _Names) -> pd.DataFrame:
    """Durations of work, by kernel and by the step that launches it."""
    work: GpuWork = rank.gpu_work.by_device()[found.device]
    step = found.window.step_of(rank, work)
    kept = np.flatnonzero(np.isin(step, chosen) & found.window.is_of_a_step(rank, work))
    table = pd.DataFrame(
        {
            "name": work.name[kept].astype(np.int64),
            "is_graph": (work.type[kept] == KernelType.CUDA_GRAPH).astype(np.int64),
            "step": found.window.steps[step[kept]].astype(np.int64),
            "total_ns": work.duration_ns[kept],
        }
    )
    sums = table.groupby(["name", "is_graph", "step"])["total_ns"].agg(["size", "sum"])
    sums = sums.reset_index()
    of_kernels = zip(sums["name"].tolist(), sums["is_graph"].tolist(), strict=True)
    sums["kernel"] = [names.kernel(*pair) for pair in of_kernels]
    by_key = sums.groupby(["kernel", "step"], as_index=False)[["size", "sum"]].sum()
    return by_key.rename(columns={"size": "count", "sum": "total_ns"})


class _Names:
    """The texts of one rank that identify rows."""

    def __init__(self, rank: Rank) -> None:
        self.rank, self.calls = rank, calls_of(rank)
        self.names = rank.trace.events.name.values
        self.mangled = mangled_names(rank.trace.events)
        self.known: dict[tuple[int, int], str] = {}

    def coded(self, pieces: _Pieces) -> dict[str, _Coded]:
        """The texts of pieces, by `KEYS`."""
        used, which = numbered(pieces.place)
        around = {
            name: (codes[which], texts) for name, (codes, texts) in self._around(used).items()
        }
        return {"part": (pieces.part, [*_ALL]), **around, "kernel": self._owners(pieces)}

    def table(self, pieces: _Pieces) -> pd.DataFrame:
        """Sum up pieces by their texts."""
        codes = self.coded(pieces)
        groups = grouped(*(code for code, _ in codes.values()))
        texts = {
            name: np.array(texts, dtype=object)[code[groups.first]]
            for name, (code, texts) in codes.items()
        }
        time_ns = groups.reduce(np.add, pieces.time_ns)
        return pd.DataFrame({**texts, "count": groups.sizes, "time_ns": time_ns})

    def _owners(self, pieces: _Pieces) -> _Coded:
        """The kernel of each piece, or the call that the host is in."""
        calls = np.append(self.calls.name, _NONE)[pieces.place].astype(np.int64)
        first_kernel = len(self.names)
        kernels = first_kernel + 2 * pieces.name + pieces.is_graph
        keys = np.where(pieces.name == _NONE, calls, kernels)

        def text(key: int) -> str:
            if key < first_kernel:
                return self._name(key)
            return self.kernel(*divmod(key - first_kernel, 2))

        return _coded(keys, text)

    def _around(self, places: Int64Array) -> dict[str, _Coded]:
        """Module or annotation, operator and shape of each place."""
        calls = self.calls
        names = np.append(calls.name, _NONE).astype(np.int64)
        paths = module_paths(self.rank)
        operator = calls.operator[places]
        regions = np.append(region_places(self.rank), _NONE)[places]
        modules = paths.at(places)
        dims, types = (shapes_of(self.rank)[name] for name in SHAPES)
        dims_of, types_of = (np.append(each.code, _NONE)[operator] for each in (dims, types))
        kinds = len(types.texts) + 1

        def module(key: int) -> str:
            if key >= 0:
                return kept_name(paths.paths[key])
            return _DIGITS.sub("N", self._name(_NONE - 1 - key))

        def shape(key: int) -> str:
            of_dims, of_types = divmod(key, kinds)
            if key == _NONE:
                return ""
            return kept_name(f"{dims.texts[of_dims]} {types.texts[of_types]}".strip())

        return {
            "module": _coded(np.where(modules >= 0, modules, _NONE - 1 - names[regions]), module),
            "operator": _coded(names[operator], self._name),
            "shape": _coded(
                np.where(operator == _NONE, _NONE, dims_of.astype(np.int64) * kinds + types_of),
                shape,
            ),
        }

    def _name(self, code: int) -> str:
        return kept_name(self.names[code]) if code >= 0 else ""

    def kernel(self, code: int, is_graph: int) -> str:
        """The normalised name of a kernel, or the name for all graphs."""
        if (code, is_graph) not in self.known:
            name = self.mangled.get(code, self.names[code])
            key = GRAPHS if is_graph else kept_name(normalised_kernel_name(name))
            self.known[code, is_graph] = key
        return self.known[code, is_graph]

    def labels(self) -> dict[str, str]:
        """Readable names of all kernels that were asked for."""
        found = {}
        for (code, is_graph), key in self.known.items():
            name = self.names[code]
            found[key] = GRAPHS if is_graph else readable_name(name) or short_name(name, WIDTH)
        return found


def names_by_key(rank: Rank) -> dict[str, dict[str, tuple[str, ...]]]:
    """The names of a rank that texts of `TimeSpent.table` stand for, by column and text.

    The class of a module stands for all modules of the class, as jobs may be compared by class. Of
    kernels with the same normalised name, the one that takes the most time comes first.
    """
    names = _Names(rank)
    found: dict[str, dict[str, dict[str, None]]] = {"module": {}, "operator": {}, "kernel": {}}
    for path in module_paths(rank).paths:
        for key in (kept_name(path), of_classes(kept_name(path))):
            found["module"].setdefault(key, {})[path] = None
    calls = names.calls
    for code in np.unique(calls.name[calls.kind == Kind.CPU_OP]).tolist():
        found["operator"].setdefault(kept_name(names.names[code]), {})[names.names[code]] = None
    work = rank.gpu_work
    codes, which = np.unique(work.name, return_inverse=True)
    total_ns = np.bincount(which.ravel(), weights=work.duration_ns, minlength=codes.size)
    graphs = np.zeros(codes.size, dtype=np.int64)
    graphs[which.ravel()[work.type == KernelType.CUDA_GRAPH]] = 1
    for place in np.argsort(-total_ns, kind="stable").tolist():
        code = int(codes[place])
        key = names.kernel(code, int(graphs[place]))
        found["kernel"].setdefault(key, {})[work.names[code]] = None
    return {what: {key: tuple(each) for key, each in own.items()} for what, own in found.items()}


_Coded: TypeAlias = tuple[Int64Array, list[str]]
"""Position of each item's text, and the texts."""


def _coded(keys: Int64Array, text: Callable[[int], str]) -> _Coded:
    """The texts that some keys stand for, each created once."""
    alike = grouped(keys)
    every: dict[str, int] = {}
    codes = [every.setdefault(text(key), len(every)) for key in keys[alike.first].tolist()]
    return np.array(codes, dtype=np.int64)[alike.of_rows], [*every]


def kept_name(name: str) -> str:
    """A name; a long one as its beginning and a digest, which distinguishes it from others.

    Examples
    --------
    >>> kept_name("short"), len(kept_name("x" * 1000))
    ('short', 200)
    """
    if len(name) <= LONGEST_NAME:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{name[: LONGEST_NAME - 1 - len(digest)]}~{digest}"
