"""Idle time summed by device, name or path, whatever the step, the part and the thread."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses.time.causes import CAUSE_NAMES

SEPARATOR: Final = " › "
NAMES_SHOWN: Final = 4
"""Innermost names of a path that are shown; stacks have dozens."""

_KEYS = ["rank", "device", "cause", "owner", "kind", "path"]


def causes_by_device(devices: pd.DataFrame, causes: pd.DataFrame) -> pd.DataFrame:
    """Idle time of each device by cause.

    Returns
    -------
    DataFrame
        ``rank``, ``device``, ``idle_ns``, and a column (int64 ns) for each cause that occurs.
    """
    keys = ["rank", "device"]
    by_cause = _by_cause(causes, keys)
    sums = by_cause.reindex(pd.MultiIndex.from_frame(devices[keys]), fill_value=0)
    return pd.concat([devices[[*keys, "idle_ns"]], sums.reset_index(drop=True)], axis=1)


def owners_by_name(owners: pd.DataFrame) -> pd.DataFrame:
    """Idle time of all calls of a name, over all devices, by cause; longest first.

    Returns
    -------
    DataFrame
        Indexed by ``owner`` (empty for none), a column (int64 ns) for each cause that occurs.
    """
    by_cause = _by_cause(owners, ["owner"])
    order = (-by_cause.sum(axis=1)).argsort(kind="stable")
    return by_cause.iloc[order]


def _by_cause(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Sums with a row for each value of the keys, and a column for each cause that occurs."""
    sums = table.pivot_table(
        index=keys, columns="cause", values="idle_ns", aggfunc="sum", fill_value=0
    )
    return sums[[name for name in CAUSE_NAMES if name in sums.columns]]


def owners_by_path(owners: pd.DataFrame, paths: pd.DataFrame) -> pd.DataFrame:
    """Sum `IdleOwners.owners` by cause and path, longest first.

    Returns
    -------
    DataFrame
        ``rank``, ``device``, ``cause``, ``owner``, ``kind``, ``path`` (text: the innermost names),
        ``idle_ns`` (int64), ``idle_percent`` (of the idle time of the device), ``pieces``.
    """
    table = owners.groupby(_KEYS, as_index=False, sort=False)[["idle_ns", "pieces"]].sum()
    table = table.sort_values("idle_ns", ascending=False, kind="stable", ignore_index=True)
    whole_ns = table.groupby(["rank", "device"])["idle_ns"].transform("sum")
    table.insert(len(_KEYS) + 1, "idle_percent", 100 * table["idle_ns"] / whole_ns)
    names, parents = paths["name"].tolist(), paths["parent"].tolist()
    text = {path: _path_text(path, names, parents) for path in set(table["path"].tolist())}
    return table.assign(path=[text[path] for path in table["path"].tolist()])


def _path_text(path: int, names: list[str], parents: list[int]) -> str:
    shown: list[str] = []
    while path >= 0 and len(shown) < NAMES_SHOWN:
        shown.insert(0, names[path])
        path = parents[path]
    return SEPARATOR.join([*(["…"] if path >= 0 else []), *shown])
