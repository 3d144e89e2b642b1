"""The Python frames around operators that say which code calls them."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.calls import calls_of, nearest_above, nearest_at_or_above
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind, TextColumn
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

NOT_OF_THE_USER: Final = re.compile(r"^<built-in|(^|/)torch/")
"""Frames that are left out of stacks: built-in functions, and those of PyTorch itself."""

FRAMES: Final = 5
"""Innermost frames that tell stacks apart, as in ``key_averages(group_by_stack_n=5)``."""

SEPARATOR: Final = " › "


class Stacks(NamedTuple):
    """The stacks of a rank."""

    code: Int64Array
    """Position in `texts` of the stack around each call, by place."""
    texts: list[str]
    """Names of the frames from the outermost to the innermost; empty for none."""


def stacks_of(rank: Rank) -> Stacks:
    """The stack around each call.

    Traces of 2021 and 2022 have no frames, but may have a text with the stack of each operator.
    """
    return rank.remember(_of_frames if calls_of(rank).has_frames else _of_texts)


def _of_texts(rank: Rank) -> Stacks:
    calls = calls_of(rank)
    table = calls.events.side.get("operators")
    column = None if table is None else table.columns.get("call_stack")
    if table is None or not isinstance(column, TextColumn):
        return Stacks(np.zeros(calls.kind.size, dtype=np.int64), [""])
    texts = {"": 0}
    known = [texts.setdefault(_stack(text), len(texts)) for text in column.values]
    code_of_row = np.zeros(len(calls.events), dtype=np.int64)
    code_of_row[table.rows] = np.array([*known, 0])[column.codes]
    return Stacks(code_of_row[calls.forest.rows], [*texts])


def _stack(recorded: str) -> str:
    """The innermost frames that count, of JSON text with the innermost frame first.

    Examples
    --------
    >>> _stack('"/torch/nn/linear.py(96): forward;model.py(7): forward;train.py(3): main"')
    'train.py(3): main › model.py(7): forward'
    >>> _stack(""), _stack('["not a text"]'), _stack("[" * 100_000)
    ('', '', '')
    """
    try:
        text = json.loads(recorded or "null")
    except (ValueError, RecursionError):
        text = None
    frames = [frame.strip() for frame in text.split(";")] if isinstance(text, str) else []
    counted = [frame for frame in frames if frame and not NOT_OF_THE_USER.search(frame)]
    return SEPARATOR.join(reversed(counted[:FRAMES]))


def _of_frames(rank: Rank) -> Stacks:
    calls = calls_of(rank)
    frames = calls.kind == Kind.PYTHON
    frames &= ~calls.named(NOT_OF_THE_USER.search)
    nearest = nearest_at_or_above(calls.forest, frames)
    above = np.append(nearest_above(calls.forest, frames), NO_PARENT)
    chosen = np.zeros(frames.size + 1, dtype=np.bool_)
    chosen[nearest] = True
    innermost = np.flatnonzero(chosen)
    levels = [innermost]
    for _ in range(FRAMES - 1):
        levels.append(above[levels[-1]])
    names = np.append(calls.name, NO_PARENT)
    stacks = [names[level] for level in reversed(levels)]
    alike = grouped(*stacks)
    code = np.zeros(chosen.size, dtype=np.int64)
    code[innermost] = alike.of_rows
    values = calls.events.name.values
    rows = np.stack([names[alike.first] for names in stacks], axis=1).tolist()
    texts = [SEPARATOR.join([values[name] for name in row if name >= 0]) for row in rows]
    return Stacks(code[nearest], texts or [""])
