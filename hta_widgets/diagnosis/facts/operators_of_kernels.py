"""The operators that kernels belong to, with their shapes and types, and the modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.modules import SEPARATOR, module_paths
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

_NUMBER: Final = re.compile(r"_\d+$")

_IN_ALL_MODELS: Final = re.compile(
    r"^(Linear|Conv\d?d|Identity|Dropout|Sequential|ModuleList|DataParallel"
    r"|DistributedDataParallel|FullyShardedDataParallel|OptimizedModule)$"
)
"""Modules that do not tell where in a model they are."""


class Operators(NamedTuple):
    """The operator of each of some kernels."""

    place: Int64Array
    """Of the call, -1 for none."""
    kind: Int64Array
    """Position in `kinds`; kernels of operators with the same name, shapes and types have one."""
    kinds: list[tuple[str, str, str]]
    """Name, shapes and types, as in the trace; empty where they are not recorded."""


def operators_of(rank: Rank, work: GpuWork, is_meant: Callable[[str], object]) -> Operators:
    """The nearest operator around the launch of each kernel, of those whose names are meant."""
    calls = calls_of(rank)
    chosen = (calls.kind == Kind.CPU_OP) & calls.named(is_meant)
    nearest = nearest_at_or_above(calls.forest, chosen)
    place = np.append(nearest, -1)[calls.places_of(work.launch)]
    used, which = np.unique(place, return_inverse=True)
    rows = np.append(calls.forest.rows, -1)[used]
    events = rank.trace.events
    (dims, dim_texts), (types, type_texts) = (
        events.texts_at("operators", column, rows) for column in ("input_dims", "input_types")
    )
    names = events.name.values
    has_operator = used >= 0
    name, dims, types = (
        np.where(has_operator, codes, -1)
        for codes in (np.append(calls.name, -1)[used], dims, types)
    )
    alike = grouped(name, dims, types)
    kind = alike.of_rows
    kinds = [
        (
            _text(names, int(name[row])),
            _text(dim_texts, int(dims[row])),
            _text(type_texts, int(types[row])),
        )
        for row in alike.first.tolist()
    ]
    return Operators(place, kind[which], kinds)


def _text(texts: Sequence[str], code: int) -> str:
    return texts[code] if code >= 0 else ""


def time_by_module(rank: Rank, places: Int64Array, length_ns: Times) -> dict[str, int]:
    """Time (ns) inside each kind of module of the user's model, by its class, outermost first.

    Each piece of time belongs to the call at a place, to none at -1. The one module that is
    outermost of all holds everything, and is left out. Empty if no modules are recorded.
    """
    paths = module_paths(rank)
    codes = paths.at(places)
    sums = np.bincount(codes[codes >= 0], length_ns[codes >= 0], minlength=len(paths.paths))
    found: dict[str, int] = {}
    outermost = set()
    for code in np.flatnonzero(sums).tolist():
        every = [_NUMBER.sub("", name) for name in paths.paths[code].split(SEPARATOR)]
        names = [name for name in dict.fromkeys(every) if not _IN_ALL_MODELS.search(name)]
        outermost.update(names[:1])
        for name in names:
            found[name] = found.get(name, 0) + int(sums[code])
    if len(outermost) == 1:
        del found[outermost.pop()]
    return found
