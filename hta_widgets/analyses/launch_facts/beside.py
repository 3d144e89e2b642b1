"""Launch facts beside other tables of kernels."""

from __future__ import annotations

from typing import Final

import pandas as pd

SHOWN: Final = (
    *("grid", "block", "threads", "registers", "shared_bytes", "occupancy_percent"),
    *("blocks_per_sm", "waves", "tensor_core", "operator", "module"),
)
"""Columns of `LaunchFacts.kernels` that tell how a kernel is launched."""


def with_launch_facts(kernels: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
    """Put how kernels are launched beside them, as far as it is known.

    Parameters
    ----------
    kernels : DataFrame
        With columns ``rank`` and ``name``.
    facts : DataFrame
        `LaunchFacts.kernels`, a row per kernel; of several devices, the first stands for all.

    Returns
    -------
    DataFrame
        With those of `SHOWN` of which anything is known. Numbers are float, NaN where not known,
        texts empty.
    """
    by_kernel = facts.drop_duplicates(["rank", "name"]).set_index(["rank", "name"])
    found = by_kernel[[*SHOWN]].reindex(pd.MultiIndex.from_frame(kernels[["rank", "name"]]))
    found.index = kernels.index
    columns = {}
    for name in SHOWN:
        is_number = facts[name].dtype.kind in "if"
        known = found[name].notna() & (found[name].ge(0) if is_number else True)
        if (known if is_number else found[name].fillna("") != "").any():
            columns[name] = found[name].where(known, float("nan") if is_number else "")
    return kernels.assign(**columns)
