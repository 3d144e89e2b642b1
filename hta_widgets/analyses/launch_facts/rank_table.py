"""How the kernels of one rank are launched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.launch_facts.by_group import NOT_RECORDED, longest, statistics
from hta_widgets.analyses.launch_facts.multiprocessors import estimates, multiprocessors
from hta_widgets.analyses.launch_facts.operator_names import operator_names
from hta_widgets.analyses.shared.attribution.calls import calls_of
from hta_widgets.analyses.shared.attribution.module_paths import module_paths
from hta_widgets.analyses.shared.excerpt import Excerpt, counted_work
from hta_widgets.analyses.shared.launch_configuration import launch_configuration
from hta_widgets.analyses.shared.tensor_cores import TensorCores, tensor_cores
from hta_widgets.grouping import Groups, grouped
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

Numbers = NDArray[np.int64]
By: TypeAlias = Literal["name", "configuration"]

WHOLE: Final = ("blocks", "threads", "registers", "shared_bytes")
SHARES: Final = ("occupancy_percent", "blocks_per_sm", "waves")
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

IN_THREADS: Final = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
"""Launch calls that take the size of a grid in threads, and are recorded with it."""

_NONE: Final = np.zeros(0, dtype=np.int64)
_AXES: Final = ("x", "y", "z")
_GRID: Final = tuple(f"grid_{axis}" for axis in _AXES)
_BLOCK: Final = tuple(f"block_{axis}" for axis in _AXES)
_RECORDED: Final = (*_GRID, *_BLOCK, "registers", "shared_bytes")
_SAID: Final = {TensorCores.YES: "yes", TensorCores.NO: "no", TensorCores.UNKNOWN: ""}
_MOST: Final = 2**62


class RankLaunches(NamedTuple):
    """Rows of `LaunchFacts` of one rank, and what is missing.

    Attributes
    ----------
    kernels : DataFrame
    few : DataFrame
        Kernels that compute with fewer blocks than their GPU has multiprocessors: ``name``,
        ``blocks``, ``sms``, ``gpu_ns``.
    notices : tuple of Notice
    """

    kernels: pd.DataFrame
    few: pd.DataFrame
    notices: tuple[Notice, ...]


def launch_table(
    rank: Rank, excerpt: Excerpt | None, by: By, kernel: str | None = None
) -> RankLaunches:
    """How the kernels of a rank are launched."""
    alike = _Alike(rank, _kernels(rank, excerpt, kernel))
    keys: list[NDArray[Any]] = [alike.device, alike.name]
    if by == "configuration":
        keys += [alike.values[name] for name in (*_GRID, *_BLOCK)]
    return RankLaunches(alike.table(grouped(*keys)), alike.few(), _notices(rank, alike))


def _kernels(rank: Rank, excerpt: Excerpt | None, kernel: str | None) -> GpuWork:
    work = rank.gpu_work
    if excerpt is not None:
        work = reduce(GpuWork.followed_by, counted_work(rank, excerpt).values(), work.take(_NONE))
    chosen = rank.trace.events.kind[work.rows] == Kind.KERNEL
    if kernel is not None:
        codes = [code for code, name in enumerate(work.names) if name == kernel]
        chosen &= np.isin(work.name, codes)
    return work.take(np.flatnonzero(chosen))


class _Alike:
    """Kernels that are launched alike, by the same operator in the same module, as one row each."""

    def __init__(self, rank: Rank, work: GpuWork) -> None:
        self._rank = rank
        values = launch_configuration(rank, work, _RECORDED)
        _count_in_blocks(values, _launched_in_threads(rank, work))
        calls = calls_of(rank)
        launch = calls.places_of(work.launch)
        operator = rank.remember(operator_names)[launch]
        module = module_paths(rank).at(launch)
        groups = grouped(work.device, work.name, operator, module, *values.values())
        first = groups.first
        self.device, self.name = work.device[first], work.name[first]
        self.operator, self.module = operator[first], module[first]
        self.values = {name: column[first] for name, column in values.items()}
        self.type = work.type[first]
        self.count = groups.sizes
        self.gpu_ns = groups.reduce(np.add, work.duration_ns)
        recorded = launch_configuration(rank, work, SHARES[:2])
        self._count_facts({name: column[first] for name, column in recorded.items()})

    @property
    def has_launches(self) -> bool:
        """Whether the grid of any kernel is recorded."""
        return bool((self.facts["blocks"] > 0).any())

    def _count_facts(self, recorded: dict[str, NDArray[np.float64]]) -> None:
        gpus = multiprocessors(self._rank.trace.metadata)
        blocks, threads = (_product(self.values, names) for names in (_GRID, _BLOCK))
        registers, shared = self.values["registers"], self.values["shared_bytes"]
        self.sms = np.zeros(blocks.size, dtype=np.int64)
        estimated = {name: np.full(blocks.size, np.nan) for name in SHARES}
        for device in np.unique(self.device).tolist():
            mine, gpu = np.flatnonzero(self.device == device), gpus[device]
            self.sms[mine] = gpu.sms
            fit = gpu.resident(threads[mine], registers[mine], shared[mine])
            for name, column in estimates(gpu, blocks[mine], threads[mine], fit).items():
                estimated[name][mine] = column
        self.is_recorded = recorded["occupancy_percent"] > 0
        for name, column in recorded.items():
            said = column > 0  # the profiler writes 0 where it cannot tell
            estimated[name] = np.where(said, column, estimated[name])
        self.facts: dict[str, NDArray[Any]] = {
            "blocks": blocks,
            "threads": threads,
            "registers": registers,
            "shared_bytes": shared,
            **estimated,
        }

    def few(self) -> pd.DataFrame:
        """Kernels that compute with fewer blocks than their GPU has multiprocessors."""
        blocks = self.facts["blocks"]
        chosen = (self.type == KernelType.COMPUTATION) & (blocks > 0) & (blocks < self.sms)
        rows = np.flatnonzero(chosen)
        return pd.DataFrame(
            {
                "name": np.array(self._names(rows), dtype=object),
                "blocks": blocks[rows],
                "sms": self.sms[rows],
                "gpu_ns": self.gpu_ns[rows],
            }
        )

    def table(self, groups: Groups) -> pd.DataFrame:
        """A row for each group of kernels that are launched alike, longest first."""
        size, group = groups.sizes.size, groups.of_rows
        names, gpu_ns = self._names(groups.first), groups.reduce(np.add, self.gpu_ns)
        events = self._rank.trace.events
        cores = {name: _SAID[tensor_cores(name)] for name in {*names}}
        kinds = [KernelType(code).name for code in self.type[groups.first].tolist()]
        columns: dict[str, Any] = {
            "rank": np.full(size, self._rank.trace.rank),
            "device": self.device[groups.first],
            "name": names,
            "kernel_type": kinds,
            "count": groups.reduce(np.add, self.count),
            "gpu_ns": gpu_ns,
            "occupancy_source": self._sources(groups),
            "sms": self.sms[groups.first],
            "tensor_core": [cores[name] for name in names],
            "operator": self._longest(group, self.operator, events.name.values),
            "module": self._longest(group, self.module, module_paths(self._rank).paths),
            **self._sizes(group, size),
        }
        for fact, values in self.facts.items():
            columns |= statistics(fact, values, group, self.count, size)
        table = pd.DataFrame({name: columns[name] for name in COLUMNS})
        order = sorted(range(size), key=[*zip((-gpu_ns).tolist(), names, strict=True)].__getitem__)
        return table.astype(COLUMNS).take(order).reset_index(drop=True)

    def _names(self, rows: Numbers) -> list[str]:
        names = self._rank.gpu_work.names
        return [names[code] for code in self.name[rows].tolist()]

    def _sizes(self, group: Numbers, size: int) -> dict[str, Any]:
        """Number of different grids and blocks, and those of most of the time."""
        alike = grouped(*(self.values[name] for name in (*_GRID, *_BLOCK)))
        code = alike.of_rows
        each = grouped(group, code).first
        known = each[self.values["grid_x"][each] != NOT_RECORDED]
        most = alike.first[longest(group, code, self.gpu_ns)] if size else each
        columns = [self.values[name][most].tolist() for name in (*_GRID, *_BLOCK)]
        sizes = [*zip(*columns, strict=True)]
        return {
            "configurations": np.bincount(group[known], minlength=size),
            "grid": [_text(each[:3]) for each in sizes],
            "block": [_text(each[3:]) for each in sizes],
        }

    def _sources(self, groups: Groups) -> list[str]:
        recorded = groups.reduce(np.logical_or, self.is_recorded)
        known = groups.reduce(np.logical_or, ~np.isnan(self.facts["occupancy_percent"]))
        found: list[str] = np.select([recorded, known], ["recorded", "estimated"], "").tolist()
        return found

    def _longest(self, group: Numbers, codes: Numbers, texts: Sequence[str]) -> list[str]:
        found = longest(group, codes, self.gpu_ns).tolist()
        return [texts[code] if code >= 0 else "" for code in found]


def _launched_in_threads(rank: Rank, work: GpuWork) -> NDArray[np.bool_]:
    """Whether the call that launches each kernel takes the size of the grid in threads."""
    events = rank.trace.events
    names = events.name.values
    codes = [code for code, name in enumerate(names) if name in IN_THREADS]
    launched = work.launch >= 0
    return np.asarray(launched & np.isin(events.name.codes[work.launch], codes))


def _count_in_blocks(values: dict[str, Numbers], in_threads: NDArray[np.bool_]) -> None:
    """Divide grids that are recorded in threads by the size of the block."""
    for grid, block in zip(_GRID, _BLOCK, strict=True):
        size, part = values[grid], values[block]
        divided = -(-size // np.maximum(part, 1))
        values[grid] = np.where(in_threads & (size > 0) & (part > 0), divided, size)


def _product(values: dict[str, Numbers], names: tuple[str, ...]) -> Numbers:
    """Product of three sizes, `NOT_RECORDED` where one is missing or nothing can hold it."""
    sizes = np.stack([values[name] for name in names])
    found = sizes.prod(axis=0)
    is_size = (sizes > 0).all(axis=0) & (sizes.astype(np.float64).prod(axis=0) < _MOST)
    return np.where(is_size, found, NOT_RECORDED)


def _text(sizes: tuple[int, ...]) -> str:
    return "" if NOT_RECORDED in sizes else "×".join(map(str, sizes))


def _notices(rank: Rank, alike: _Alike) -> tuple[Notice, ...]:
    if not alike.count.size:
        return ()
    if not alike.has_launches:
        if rank.format.details is None:
            return (Notice(f"{rank.format.noun} has no grids and blocks of kernels"),)
        details = rank.details(DetailGroup.LAUNCH_CONFIGURATION)
        return details.notices or (
            UNREADABLE if _GRID[0] in details.table.columns else NO_LAUNCHES,
        )
    return () if alike.sms.any() else (NO_GPUS,)
