"""How kernels are launched: grid, block, registers, shared memory, occupancy and waves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.launch_facts.alike import (
    BLOCK,
    GRID,
    NOT_RECORDED,
    SHARES,
    Alike,
    launched_alike,
    longest,
    statistics,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.modules import module_paths
from hta_widgets.analyses.time.rows import stacked
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.analyses.time.tensor_cores import TensorCores, tensor_cores
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import check_choice
from hta_widgets.grouping import Groups, grouped
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank

WORTH_SAYING: Final = 0.03
"""Share of all kernel time from which a kernel that leaves multiprocessors empty is named."""

NAME_WIDTH: Final = 60
By: TypeAlias = Literal["name", "configuration"]
WHOLE: Final = ("blocks", "threads", "registers", "shared_bytes")

COLUMNS: Final = {
    **dict.fromkeys(("rank", "device"), np.int64),
    **dict.fromkeys(("name", "kernel_type"), object),
    **dict.fromkeys(("count", "gpu_ns", "configurations"), np.int64),
    **dict.fromkeys(("grid", "block"), object),
    **dict.fromkeys(WHOLE, np.int64),
    **dict.fromkeys(SHARES, np.float64),
    **{f"{name}_{edge}": np.int64 for name in WHOLE for edge in ("min", "max")},
    **{f"{name}_{edge}": np.float64 for name in SHARES for edge in ("min", "max")},
    "occupancy_source": object,
    "sms": np.int64,
    **dict.fromkeys(("tensor_core", "operator", "module"), object),
}

FEW: Final = {"name": object, **dict.fromkeys(("blocks", "sms", "gpu_ns"), np.int64)}
NO_LAUNCHES: Final = Notice("no grids and blocks of kernels were recorded")
UNREADABLE: Final = Notice("the recorded grids and blocks of kernels cannot be read")

NO_GPUS: Final = Notice(
    "the trace does not describe its GPUs, so how many blocks fit on them is not known"
)

_SAID: Final = {TensorCores.YES: "yes", TensorCores.NO: "no", TensorCores.UNKNOWN: ""}

SHOWN: Final = (
    *("grid", "block", "threads", "registers", "shared_bytes", "occupancy_percent"),
    *("blocks_per_sm", "waves", "tensor_core", "operator", "module"),
)
"""Columns of `LaunchFacts.kernels` that describe how a kernel is launched."""


def launch_finding(kernels: pd.DataFrame, few: pd.DataFrame) -> str:
    """Sentence about computing kernels with fewer blocks than their GPU has multiprocessors.

    `few` holds these, on all ranks; `kernels` is `LaunchFacts.kernels`.
    """
    whole_ns = int(kernels["gpu_ns"].sum())
    times = few.groupby("name", sort=False)["gpu_ns"].sum().sort_values(ascending=False)
    times = times[times > WORTH_SAYING * whole_ns]
    if times.empty:
        return ""
    name, most_ns = str(times.index[0]), int(times.iloc[0])
    named = few[few["name"] == name].groupby(["blocks", "sms"], as_index=False)["gpu_ns"].sum()
    most = named["gpu_ns"].to_numpy().argmax()
    blocks, sms = (int(named[column].iloc[most]) for column in ("blocks", "sms"))
    has = "mostly has" if len(named) > 1 else "has"
    said = (
        f"{short_name(name, NAME_WIDTH)} fills {blocks:,} of {sms:,} SMs in "
        f"{_share(most_ns, whole_ns)}, because its grid {has} {counted(blocks, 'block')}"
    )
    others = times.iloc[1:]
    if len(others):
        more = counted(len(others), "other kernel")
        leave = "leaves" if len(others) == 1 else "leave"
        said += f"; {more} {leave} SMs empty in {_share(int(others.sum()), whole_ns)}"
    return f"{said}."


def _share(ns: int, whole_ns: int) -> str:
    return f"{percent(100 * ns / whole_ns)} of the kernel time"


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchFacts(Result):
    """How kernels are launched.

    Attributes
    ----------
    kernels : DataFrame
        One row per rank, device and kernel, or per configuration of it, longest first on each rank:
        ``rank``, ``device``, ``name``, ``kernel_type``, ``count`` (launches), ``gpu_ns`` (int64 ns,
        sum of their durations), ``configurations`` (different grids and blocks); ``grid`` and
        ``block`` (sizes such as ``128×2×1`` with the most time among launches that record them,
        empty if none does).

        The median over the time of the row's launches (those with less take up to half of it: of
        2,575 additions, most have a single block and take no time), and as ``…_min`` and ``…_max``
        the minimum and maximum, of: ``blocks`` (of the grid), ``threads`` (of a block),
        ``registers`` (of a thread), ``shared_bytes`` (of a block): int64, -1 where not recorded;
        ``occupancy_percent`` (running threads, of the most that multiprocessors hold),
        ``blocks_per_sm`` (blocks of the grid ÷ multiprocessors), ``waves`` (blocks of the grid ÷
        blocks that fit on all multiprocessors at a time): float, NaN where not known.

        ``occupancy_source`` (``recorded`` by the profiler, or ``estimated`` here by the same rule;
        empty where not known), ``sms`` (multiprocessors of the GPU, 0 if not recorded),
        ``tensor_core`` (``yes``, ``no``, or empty if the kernel's name does not show it),
        ``operator`` (the innermost one around the launch call) and ``module`` (its path, names
        joined by `` › ``), each the one with the most time.
    """

    kernels: pd.DataFrame


def launch_facts(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    by: By = "name",
    kernel: str | None = None,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> LaunchFacts:
    """List how kernels are launched, and how much of the GPU they can fill.

    For exports of Nsight Systems, grids and blocks are read when first needed.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks if not given.
    by : {"name", "configuration"}
        A row for each kernel, or for each grid and block of it.
    kernel : str, optional
        Only the kernel of this name.
    steps : iterable of int, optional
        Only these ProfilerSteps; all analysed ones if not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    check_choice("by", by, get_args(By))
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(launch_table, chosen, selection, by, kernel)
    kernels = stacked([each.kernels for each in by_rank.values()], COLUMNS)
    missing = {rank: each.notices for rank, each in by_rank.items()}
    return LaunchFacts(
        kernels=kernels,
        finding=launch_finding(kernels, stacked([each.few for each in by_rank.values()], FEW)),
        notices=(*job.notices_for(chosen, Recorded.KERNELS), *job.merged(missing)),
    )


class RankLaunches(NamedTuple):
    """Rows of `LaunchFacts` of one rank, and what is missing."""

    kernels: pd.DataFrame
    few: pd.DataFrame
    """Computing kernels with fewer blocks than their GPU has multiprocessors: ``name``,
    ``blocks``, ``sms``, ``gpu_ns``."""
    notices: tuple[Notice, ...]


def launch_table(
    rank: Rank, selection: TimeSelection | None, by: By, kernel: str | None = None
) -> RankLaunches:
    """How the kernels of a rank are launched."""
    alike = launched_alike(rank, selection, kernel)
    keys: list[NDArray[Any]] = [alike.device, alike.name]
    if by == "configuration":
        keys += [alike.values[name] for name in (*GRID, *BLOCK)]
    kernels = _table(rank, alike, grouped(*keys))
    return RankLaunches(kernels, _few(rank, alike), _notices(rank, alike))


def _few(rank: Rank, alike: Alike) -> pd.DataFrame:
    """Computing kernels with fewer blocks than their GPU has multiprocessors."""
    blocks = alike.facts["blocks"]
    chosen = (alike.type == KernelType.COMPUTATION) & (blocks > 0) & (blocks < alike.sms)
    rows = np.flatnonzero(chosen)
    return pd.DataFrame(
        {
            "name": np.array(_names(rank, alike, rows), dtype=object),
            "blocks": blocks[rows],
            "sms": alike.sms[rows],
            "gpu_ns": alike.gpu_ns[rows],
        }
    )


def _table(rank: Rank, alike: Alike, groups: Groups) -> pd.DataFrame:
    """A row for each group of kernels that are launched alike, longest first."""
    size, group = groups.sizes.size, groups.of_rows
    names, gpu_ns = _names(rank, alike, groups.first), groups.reduce(np.add, alike.gpu_ns)
    events = rank.trace.events
    cores = {name: _SAID[tensor_cores(name)] for name in {*names}}
    kinds = [KernelType(code).name for code in alike.type[groups.first].tolist()]
    columns: dict[str, Any] = {
        "rank": np.full(size, rank.trace.rank),
        "device": alike.device[groups.first],
        "name": names,
        "kernel_type": kinds,
        "count": groups.reduce(np.add, alike.count),
        "gpu_ns": gpu_ns,
        "occupancy_source": _sources(alike, groups),
        "sms": alike.sms[groups.first],
        "tensor_core": [cores[name] for name in names],
        "operator": _longest(alike, group, alike.operator, events.name.values),
        "module": _longest(alike, group, alike.module, module_paths(rank).paths),
        **_sizes(alike, group, size),
    }
    for fact, values in alike.facts.items():
        columns |= statistics(fact, values, group, alike.gpu_ns, size)
    rows = [*zip((-gpu_ns).tolist(), names, strict=True)]
    order = np.array(sorted(range(size), key=rows.__getitem__), dtype=np.int64)
    typed = {name: np.asarray(columns[name], dtype=of)[order] for name, of in COLUMNS.items()}
    return pd.DataFrame(
        {name: pd.Series(column, dtype=column.dtype) for name, column in typed.items()}
    )


def _names(rank: Rank, alike: Alike, rows: Int64Array) -> list[str]:
    names = rank.gpu_work.names
    return [names[code] for code in alike.name[rows].tolist()]


def _sizes(alike: Alike, group: Int64Array, size: int) -> dict[str, Any]:
    """Number of different grids and blocks, and those with the most time.

    Kernels in a graph may have none recorded, even if most kernels are in one.
    """
    sizes = grouped(*(alike.values[name] for name in (*GRID, *BLOCK)))
    code, is_recorded = sizes.of_rows, alike.values["grid_x"] != NOT_RECORDED
    each = grouped(group, code).first
    known = each[is_recorded[each]]
    none_is = np.bincount(group[is_recorded], minlength=size) == 0
    rows = np.flatnonzero(is_recorded | none_is[group])
    most = sizes.first[longest(group[rows], code[rows], alike.gpu_ns[rows])]
    columns = [alike.values[name][most].tolist() for name in (*GRID, *BLOCK)]
    texts = [*zip(*columns, strict=True)]
    return {
        "configurations": np.bincount(group[known], minlength=size),
        "grid": [_text(each[:3]) for each in texts],
        "block": [_text(each[3:]) for each in texts],
    }


def _sources(alike: Alike, groups: Groups) -> list[str]:
    recorded = groups.reduce(np.logical_or, alike.is_recorded)
    known = groups.reduce(np.logical_or, ~np.isnan(alike.facts["occupancy_percent"]))
    found: list[str] = np.select([recorded, known], ["recorded", "estimated"], "").tolist()
    return found


def _longest(alike: Alike, group: Int64Array, codes: Int64Array, texts: Sequence[str]) -> list[str]:
    found = longest(group, codes, alike.gpu_ns).tolist()
    return [texts[code] if code >= 0 else "" for code in found]


def _text(sizes: tuple[int, ...]) -> str:
    return "" if NOT_RECORDED in sizes else "×".join(map(str, sizes))


def _notices(rank: Rank, alike: Alike) -> tuple[Notice, ...]:
    if not alike.count.size:
        return ()
    if not alike.has_launches:
        if rank.format.details is None:
            return (Notice(f"{rank.format.noun} has no grids and blocks of kernels"),)
        details = rank.details(DetailGroup.LAUNCH_CONFIGURATION)
        return details.notices or (UNREADABLE if GRID[0] in details.table.columns else NO_LAUNCHES,)
    return () if alike.sms.any() else (NO_GPUS,)


def with_launch_facts(kernels: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
    """Add columns to kernels on how they are launched, as far as known.

    Parameters
    ----------
    kernels : DataFrame
        With columns ``rank`` and ``name``. Columns of `SHOWN` with any known value are added; where
        not known, numbers (float) are NaN, and texts empty.
    facts : DataFrame
        `LaunchFacts.kernels`, a row per kernel; the first of several devices stands for all.
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
