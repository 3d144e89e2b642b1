"""Idle time by the line of Python that spends it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.paths import NO_PATH, Paths, all_paths
from hta_widgets.arrays import Int64Array
from hta_widgets.trace.ranks.rank import Rank

_FRAME: Final = re.compile(r"\.py\(\d+\): ")

_OF_OTHERS: Final = re.compile(
    r"(?:^|/)torch/|^<|(?:^|/)(?:abc|asyncio/\w+|codecs|collections/\w+|concurrent/.+|contextlib|copy"
    r"|copyreg|dataclasses|enum|functools|importlib/\w+|inspect|json/\w+|logging/\w+"
    r"|multiprocessing/\w+|posixpath|queue|re/\w+|runpy|selectors|sre_\w+|subprocess|threading"
    r"|typing|warnings|weakref)\.py\("
)
"""Frames of PyTorch, and of Python's own modules that only help: what calls them is the line."""

_KEYS: Final = ["rank", "device", "cause", "line"]


def with_lines(owners: pd.DataFrame, paths: pd.DataFrame) -> pd.DataFrame:
    """Find the line of Python that each owner is in.

    Parameters
    ----------
    owners, paths : DataFrame
        Of `IdleOwners`.

    Returns
    -------
    DataFrame
        The owners with ``line``: the innermost Python frame on the path that is neither of PyTorch
        nor of the modules of Python that only help (`contextlib`, `functools`, …), such as
        ``train.py(12): step``, where 12 is the line in which the function begins. Empty for none.
    """
    found = _lines(paths)[owners["path"].to_numpy()]
    return owners.assign(line=pd.Series(found, index=owners.index, dtype=object))


def all_lines(rank: Rank) -> Int64Array:
    """Code of the name of the line of Python that each of `all_paths` is in, -1 for none."""
    return rank.remember(_all_lines)


def _all_lines(rank: Rank) -> Int64Array:
    return _lines_of_codes(all_paths(rank), rank.trace.events.name.values)


def _lines_of_codes(paths: Paths, names: Sequence[str]) -> Int64Array:
    is_line = [_is_line(names[code]) for code in paths.name.tolist()]
    lines: list[int] = []
    for parent, name, known in zip(
        paths.parent.tolist(), paths.name.tolist(), is_line, strict=True
    ):
        around = lines[parent] if parent != NO_PATH else NO_PATH
        lines.append(name if known else around)
    return np.array(lines, dtype=np.int64)


def _lines(paths: pd.DataFrame) -> NDArray[np.object_]:
    """Line of each path, and last that of no path."""
    known = {name: _is_line(name) for name in set(paths["name"].tolist())}
    lines: list[str] = []
    for parent, name in zip(paths["parent"].tolist(), paths["name"].tolist(), strict=True):
        around = lines[parent] if parent >= 0 else ""
        lines.append(name if known[name] else around)
    return np.array([*lines, ""], dtype=object)


def owners_by_line(owners: pd.DataFrame, paths: pd.DataFrame) -> pd.DataFrame:
    """Sum `IdleOwners.owners` by cause and line of Python, longest first.

    Returns
    -------
    DataFrame
        ``rank``, ``device``, ``cause``, ``line`` (see `with_lines`), ``idle_ns`` (int64),
        ``idle_percent`` (of the idle time of the device), ``pieces``.
    """
    found = with_lines(owners, paths)
    table = found.groupby(_KEYS, as_index=False, sort=False)[["idle_ns", "pieces"]].sum()
    table = table.sort_values("idle_ns", ascending=False, kind="stable", ignore_index=True)
    whole_ns = table.groupby(["rank", "device"])["idle_ns"].transform("sum")
    table.insert(len(_KEYS) + 1, "idle_percent", 100 * table["idle_ns"] / whole_ns)
    return table


@lru_cache(maxsize=1 << 16)
def _is_line(name: str) -> bool:
    return _FRAME.search(name) is not None and _OF_OTHERS.search(name) is None
