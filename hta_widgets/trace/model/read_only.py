"""Answers that several share, which nobody can change."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar, cast

import numpy as np

Answer = TypeVar("Answer")

LONG: Final = 100
"""Length from which a list that begins with a name or a number is not looked into."""


class _WithFrames:
    """An answer with tables of pandas inside: whoever asks gets tables of their own."""

    def __init__(self, answer: object) -> None:
        self.answer = answer


def read_only(answer: Answer) -> Answer:
    """Let nobody write into the arrays inside an answer, and return it.

    A diagnosis once set the first and last entry of an array of step edges that eleven analyses
    share: what they said depended on whether it had been asked before.

    Parameters
    ----------
    answer : object
        Arrays and tables, and tuples, lists, mappings and dataclasses that hold them, are looked
        into; anything else is left as it is.
    """
    if isinstance(answer, np.ndarray):
        answer.flags.writeable = False
    elif _is_table(answer):
        for block in cast("Any", answer)._mgr.blocks:  # noqa: SLF001  # there is no public way
            read_only(block.values)
    else:
        for each in _inside(answer):
            read_only(each)
    return answer


def kept(answer: object) -> object:
    """What to remember of an answer that nobody can write into, for `handed_out`."""
    return _WithFrames(answer) if _has_tables(answer) else answer


def handed_out(remembered: object) -> Any:  # noqa: ANN401
    """An answer that was `kept`, with tables that share the numbers, and no column that is set."""
    return _own_tables(remembered.answer) if isinstance(remembered, _WithFrames) else remembered


def _inside(answer: object) -> list[Any]:
    if isinstance(answer, Mapping):
        return [*answer.values()]
    if isinstance(answer, tuple | list):
        is_long = len(answer) > LONG and isinstance(answer[0], str | int | float)
        return [] if is_long else [*answer]
    if is_dataclass(answer) and not isinstance(answer, type):
        return [getattr(answer, field.name) for field in fields(answer)]
    return []


def _is_table(answer: object) -> bool:
    """Whether it is one of pandas, which is not imported for this."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(answer, pandas.DataFrame | pandas.Series)


def _has_tables(answer: object) -> bool:
    return _is_table(answer) or any(map(_has_tables, _inside(answer)))


def _own_tables(answer: Any) -> Any:  # noqa: ANN401
    if _is_table(answer):
        return answer.copy(deep=False)
    if not _has_tables(answer):
        return answer
    if isinstance(answer, Mapping):
        return {name: _own_tables(each) for name, each in answer.items()}
    if isinstance(answer, tuple | list):
        own = map(_own_tables, answer)
        return answer._make(own) if hasattr(answer, "_make") else type(answer)(own)
    own = copy(answer)
    for field in fields(answer):
        object.__setattr__(own, field.name, _own_tables(getattr(answer, field.name)))
    return own
