"""How the kernels of one rank are launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.launch_facts.alike import BLOCK, GRID, SHARES, Alike, launched_alike
from hta_widgets.analyses.launch_facts.by_group import NOT_RECORDED, longest, statistics
from hta_widgets.analyses.time.modules import module_paths
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.analyses.time.tensor_cores import TensorCores, tensor_cores
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import Groups, grouped
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank

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


class RankLaunches(NamedTuple):
    """Rows of `LaunchFacts` of one rank, and what is missing."""

    kernels: pd.DataFrame
    few: pd.DataFrame
    """Kernels that compute with fewer blocks than their GPU has multiprocessors: ``name``,
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
    tables = _Tables(rank, alike)
    return RankLaunches(tables.table(grouped(*keys)), tables.few(), _notices(rank, alike))


class _Tables:
    """Tables of kernels that are launched alike."""

    def __init__(self, rank: Rank, alike: Alike) -> None:
        self._rank = rank
        self._alike = alike

    def few(self) -> pd.DataFrame:
        """Kernels that compute with fewer blocks than their GPU has multiprocessors."""
        blocks = self._alike.facts["blocks"]
        chosen = (
            (self._alike.type == KernelType.COMPUTATION) & (blocks > 0) & (blocks < self._alike.sms)
        )
        rows = np.flatnonzero(chosen)
        return pd.DataFrame(
            {
                "name": np.array(self._names(rows), dtype=object),
                "blocks": blocks[rows],
                "sms": self._alike.sms[rows],
                "gpu_ns": self._alike.gpu_ns[rows],
            }
        )

    def table(self, groups: Groups) -> pd.DataFrame:
        """A row for each group of kernels that are launched alike, longest first."""
        size, group = groups.sizes.size, groups.of_rows
        names, gpu_ns = self._names(groups.first), groups.reduce(np.add, self._alike.gpu_ns)
        events = self._rank.trace.events
        cores = {name: _SAID[tensor_cores(name)] for name in {*names}}
        kinds = [KernelType(code).name for code in self._alike.type[groups.first].tolist()]
        columns: dict[str, Any] = {
            "rank": np.full(size, self._rank.trace.rank),
            "device": self._alike.device[groups.first],
            "name": names,
            "kernel_type": kinds,
            "count": groups.reduce(np.add, self._alike.count),
            "gpu_ns": gpu_ns,
            "occupancy_source": self._sources(groups),
            "sms": self._alike.sms[groups.first],
            "tensor_core": [cores[name] for name in names],
            "operator": self._longest(group, self._alike.operator, events.name.values),
            "module": self._longest(group, self._alike.module, module_paths(self._rank).paths),
            **self._sizes(group, size),
        }
        for fact, values in self._alike.facts.items():
            columns |= statistics(fact, values, group, self._alike.count, size)
        rows = [*zip((-gpu_ns).tolist(), names, strict=True)]
        order = np.array(sorted(range(size), key=rows.__getitem__), dtype=np.int64)
        typed = {name: np.asarray(columns[name], dtype=of)[order] for name, of in COLUMNS.items()}
        return pd.DataFrame(
            {name: pd.Series(column, dtype=column.dtype) for name, column in typed.items()}
        )

    def _names(self, rows: Int64Array) -> list[str]:
        names = self._rank.gpu_work.names
        return [names[code] for code in self._alike.name[rows].tolist()]

    def _sizes(self, group: Int64Array, size: int) -> dict[str, Any]:
        """Number of different grids and blocks, and those of most of the time.

        Kernels in a graph may have none, and most of them may be in one.
        """
        alike = grouped(*(self._alike.values[name] for name in (*GRID, *BLOCK)))
        code, is_recorded = alike.of_rows, self._alike.values["grid_x"] != NOT_RECORDED
        each = grouped(group, code).first
        known = each[is_recorded[each]]
        none_is = np.bincount(group[is_recorded], minlength=size) == 0
        rows = np.flatnonzero(is_recorded | none_is[group])
        most = alike.first[longest(group[rows], code[rows], self._alike.gpu_ns[rows])]
        columns = [self._alike.values[name][most].tolist() for name in (*GRID, *BLOCK)]
        sizes = [*zip(*columns, strict=True)]
        return {
            "configurations": np.bincount(group[known], minlength=size),
            "grid": [_text(each[:3]) for each in sizes],
            "block": [_text(each[3:]) for each in sizes],
        }

    def _sources(self, groups: Groups) -> list[str]:
        recorded = groups.reduce(np.logical_or, self._alike.is_recorded)
        known = groups.reduce(np.logical_or, ~np.isnan(self._alike.facts["occupancy_percent"]))
        found: list[str] = np.select([recorded, known], ["recorded", "estimated"], "").tolist()
        return found

    def _longest(self, group: Int64Array, codes: Int64Array, texts: Sequence[str]) -> list[str]:
        found = longest(group, codes, self._alike.gpu_ns).tolist()
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
