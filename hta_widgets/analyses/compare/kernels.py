"""Kernels of two jobs side by side, matched across the spellings of profilers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.arrays import Int32Array
from hta_widgets.names.demangling import demangled, is_mangled
from hta_widgets.names.normalise import normalised_kernel_name
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Events, Kind, TextColumn
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

BOTH, FIRST, SECOND = "both", "first", "second"

KERNEL_COLUMNS = (
    *("kernel", "in", "kernel_type", "name_first", "name_second"),
    *("count_first", "count_second", "total_first_ns", "total_second_ns"),
    *("mean_first_ns", "mean_second_ns"),
    *("delta_count", "delta_total_ns", "delta_mean_ns", "ratio_mean"),
)
ONLY_COLUMNS = ("in", "kernel", "kernel_type", "count", "total_ns", "share_percent")
_SUMS = ["launches", "total_ns"]
_GRAPHS = "CUDA graphs"
"""Name of all that were recorded as a whole: their numbers differ from run to run."""


class _Named(NamedTuple):
    """Work of one name on one rank."""

    key: str
    name: str
    kernel_type: str
    launches: int
    total_ns: int


def compared_kernels(
    first: pd.DataFrame, second: pd.DataFrame, shares: tuple[float, float] | None
) -> pd.DataFrame:
    """Put the kernels of two jobs, from `kernel_totals`, side by side: `Compare.kernels`.

    `shares` divide the counts and totals of each job; without them these stay integers.
    """
    table = first.add_suffix("_first").join(second.add_suffix("_second"), how="outer")
    for place, side in enumerate((FIRST, SECOND)):
        counts = table[f"launches_{side}"].fillna(0).astype(np.int64)
        totals_ns = table[f"total_ns_{side}"].fillna(0).astype(np.int64)
        table[f"mean_{side}_ns"] = totals_ns / counts.where(counts > 0)
        table[f"count_{side}"] = counts / shares[place] if shares else counts
        table[f"total_{side}_ns"] = totals_ns / shares[place] if shares else totals_ns
    for column in ("count{}", "total{}_ns", "mean{}_ns"):
        names = [column.format(f"_{side}") for side in (FIRST, SECOND)]
        table[f"delta_{column.format('')}"] = table[names[1]] - table[names[0]]
    table["ratio_mean"] = table["mean_second_ns"] / table["mean_first_ns"].replace(0, np.nan)
    in_both = table["name_first"].notna() & table["name_second"].notna()
    table["in"] = np.where(in_both, BOTH, np.where(table["name_first"].notna(), FIRST, SECOND))
    table["kernel_type"] = table["kernel_type_first"].fillna(table["kernel_type_second"])
    table["kernel"] = table["name_first"].fillna(table["name_second"]).map(demangled)
    return by_change(table[list(KERNEL_COLUMNS)])


def by_change(kernels: pd.DataFrame, column: str = "delta_total_ns") -> pd.DataFrame:
    """Sort kernels by the size of a change, largest first; those without one come last."""
    size = kernels[column].abs()
    order = kernels.assign(size=size).sort_values(["size", "kernel"], ascending=[False, True])
    return kernels.loc[order.index].reset_index(drop=True)


def only_in_one(kernels: pd.DataFrame) -> pd.DataFrame:
    """Kernels that occur in only one of the jobs: `Compare.only_in_one`."""
    parts = []
    for side in (FIRST, SECOND):
        own = kernels[kernels["in"] == side]
        whole_ns = kernels[f"total_{side}_ns"].sum()
        part = own.rename(columns={f"count_{side}": "count", f"total_{side}_ns": "total_ns"})
        part = part.assign(share_percent=100 * part["total_ns"] / (whole_ns or np.nan))
        parts.append(part[list(ONLY_COLUMNS)])
    table = pd.concat(parts)
    return table.sort_values(
        ["in", "total_ns", "kernel"], ascending=[True, False, True], ignore_index=True
    )


def kernel_totals(job: Job, ranks: tuple[int, ...]) -> pd.DataFrame:
    """Count and add up the work of each kernel over some ranks, once per choice of ranks.

    Indexed by the normalised name: ``name`` (if profilers or builds give a kernel several, the one
    with the most time) and its ``kernel_type``, ``launches``, ``total_ns`` (int64 ns).
    """
    return job.remember(_totals, ranks)


def _totals(job: Job, ranks: tuple[int, ...]) -> pd.DataFrame:
    by_rank = job.reduce(_named_work, ranks)
    found = [named for of_rank in by_rank.values() for named in of_rank]
    table = pd.DataFrame(found, columns=list(_Named._fields))
    by_name = table.groupby(["key", "name", "kernel_type"], as_index=False).sum()
    by_name = by_name.sort_values(["total_ns", "name"], ascending=[False, True])
    by_key = by_name.groupby("key", sort=True)
    totals = by_key[["name", "kernel_type"]].first().join(by_key[_SUMS].sum())
    return totals.astype(dict.fromkeys(_SUMS, np.int64))


def _named_work(rank: Rank) -> list[_Named]:
    work, events = rank.gpu_work, rank.trace.events
    wanted = np.flatnonzero(events.kind[work.rows] != Kind.BUSY)
    keys = [work.name[wanted], work.type[wanted]]
    kernels = pd.Series(work.duration_ns[wanted]).groupby(keys).agg(["size", "sum"])
    mangled = mangled_names(events)
    graphs = set(events.name.codes[events.rows_of(Kind.GRAPH)].tolist())
    return [
        _Named(
            key=normalised_kernel_name(mangled.get(code, name)),
            name=name,
            kernel_type=KernelType(kernel_type).name,
            launches=launches,
            total_ns=total_ns,
        )
        for (code, kernel_type), launches, total_ns in kernels.itertuples()
        for name in [_GRAPHS if code in graphs else work.names[code]]
    ]


def mangled_names(events: Events) -> dict[int, str]:
    """Mangled name for the code of a name, if the trace has one that can be demangled."""
    side = events.side.get("mangled")
    column = side.columns["mangled"] if side else None
    if side is None or not isinstance(column, TextColumn):
        return {}
    pairs: Int32Array = np.unique(
        np.column_stack((events.name.codes[side.rows], column.codes)), axis=0
    )
    texts = {code: column.values[place] for code, place in pairs.tolist() if place >= 0}
    return {
        code: text
        for code, text in texts.items()
        if is_mangled(text) and not is_mangled(demangled(text))
    }
