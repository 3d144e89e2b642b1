"""Make shared answers read-only."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import numpy as np

Answer = TypeVar("Answer")

LONG: Final = 100
"""Length from which a list that starts with a name or a number is not searched."""


_PLAIN: Final = (str, int, float, Enum)
_WITHOUT_ARRAYS: Final = frozenset({str, int, float, bool, type(None)})
"""Most common types inside answers; asking each for a table or dataclass takes longer."""


def read_only(answer: Answer) -> Answer:
    """Make the arrays inside an answer read-only, and return it.

    A diagnosis once set the first and last entry of an array of step edges that eleven analyses
    share, so their answers depended on whether the diagnosis had run before. The search covers
    arrays and tables, and tuples, lists, mappings and dataclasses that hold them; anything else is
    left as it is.
    """
    if isinstance(answer, np.ndarray):
        answer.flags.writeable = False
    elif answer is None or isinstance(answer, _PLAIN):
        pass
    elif _is_table(answer):
        for block in cast("Any", answer)._mgr.blocks:  # noqa: SLF001  # there is no public way
            read_only(block.values)
    else:
        for each in _inside(answer):
            if type(each) is np.ndarray:  # the usual case, which saves a call
                each.flags.writeable = False
            elif type(each) not in _WITHOUT_ARRAYS:
                read_only(each)
    return answer


def _is_table(answer: object) -> bool:
    """Whether the answer is a pandas table, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(answer, pandas.DataFrame | pandas.Series)


def _inside(answer: object) -> list[Any]:
    if isinstance(answer, tuple | list):
        is_long = len(answer) > LONG and isinstance(answer[0], str | int | float)
        return [] if is_long else [*answer]
    if isinstance(answer, Mapping):
        return [*answer.values()]
    names = _fields_of(type(answer))  # type: ignore[arg-type]  # classes are hashable
    return [getattr(answer, name) for name in names]


@lru_cache(maxsize=256)
def _fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
