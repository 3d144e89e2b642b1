"""The operators that kernels belong to, with their shapes and types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

Places = NDArray[np.int64]


class Operators(NamedTuple):
    """The operator of each of some kernels.

    Attributes
    ----------
    place : ndarray of int64
        Of the call, -1 for none.
    kind : ndarray of int64
        Position in `kinds`; kernels of operators with the same name, shapes and types have one.
    kinds : list of tuple of str
        Name, shapes and types, as in the trace; empty where they are not recorded.
    """

    place: Places
    kind: Places
    kinds: list[tuple[str, str, str]]


def operators_of(rank: Rank, work: GpuWork, is_meant: Callable[[str], object]) -> Operators:
    """The nearest operator around the launch of each kernel.

    Parameters
    ----------
    rank : Rank
    work : GpuWork
    is_meant : callable
        Whether an operator counts, by its name.
    """
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
