"""Shapes and types of the inputs of operators."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.json_text import one_line
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.trace.model.events import SideTable, TextColumn
from hta_widgets.trace.ranks.rank import Rank

SHAPES: Final = ("input_dims", "input_types")


class Shapes(NamedTuple):
    """Shapes or types of the inputs of operators."""

    code: Int64Array
    """By place, into `texts`."""
    texts: tuple[str, ...]
    """JSON on one line, empty at first."""


def shapes_of(rank: Rank) -> dict[str, Shapes]:
    """Shapes and types of the inputs of each call, by the names in `SHAPES`."""
    return rank.remember(_read_shapes)


def with_shapes(rank: Rank, shapes: Collection[str]) -> Mask:
    """Mask by place of the calls whose inputs have one of some shapes."""
    code, texts = shapes_of(rank)[SHAPES[0]]
    wanted = np.array([text in shapes for text in texts], dtype=np.bool_)
    return np.asarray(wanted[code])


def _read_shapes(rank: Rank) -> dict[str, Shapes]:
    table = rank.trace.events.side.get("operators")
    return {name: _one_of_the_shapes(rank, table, name) for name in SHAPES}


def _one_of_the_shapes(rank: Rank, table: SideTable | None, name: str) -> Shapes:
    events, rows = rank.trace.events, calls_of(rank).forest.rows
    column = None if table is None else table.columns.get(name)
    if table is None or not isinstance(column, TextColumn):
        return Shapes(np.zeros(rows.size, dtype=np.int64), ("",))
    texts = ["", *map(one_line, column.values)]
    number = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    code = np.zeros(len(events), dtype=np.int64)
    code[table.rows] = np.array([number[text] for text in texts])[column.codes + 1]
    return Shapes(code[rows], tuple(number))
