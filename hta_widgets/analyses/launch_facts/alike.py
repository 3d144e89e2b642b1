"""Kernels of one rank that are launched alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.launch_facts.by_group import NOT_RECORDED
from hta_widgets.analyses.launch_facts.multiprocessors import estimates, multiprocessors
from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.launch_configuration import launch_configuration
from hta_widgets.analyses.time.modules import module_paths
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, selected_work
from hta_widgets.arrays import Float64Array, Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

IN_THREADS: Final = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
"""Launch calls that take the size of a grid in threads, and are recorded with it."""

SHARES: Final = ("occupancy_percent", "blocks_per_sm", "waves")

_AXES: Final = ("x", "y", "z")

GRID: Final = tuple(f"grid_{axis}" for axis in _AXES)

BLOCK: Final = tuple(f"block_{axis}" for axis in _AXES)

_RECORDED: Final = (*GRID, *BLOCK, "registers", "shared_bytes")

_MOST: Final = 2**62

_NONE: Final = -1


def operator_names(rank: Rank) -> Int64Array:
    """Code of the name of the innermost operator at or around each call, by place, -1 for none.

    The last value is -1 as well, for place -1.
    """
    calls = calls_of(rank)
    operator = nearest_at_or_above(calls.forest, calls.kind == Kind.CPU_OP)
    names = np.append(calls.name.astype(np.int64), -1)
    return np.append(names[operator], -1)


@dataclass(frozen=True, eq=False)
class Alike:
    """Kernels that are launched alike, by the same operator in the same module, as one row each."""

    device: Int64Array
    name: Int64Array
    """Code, -1 for none."""
    operator: Int64Array
    """Code, -1 for none."""
    module: Int64Array
    """Code of the path of the module, -1 for none."""
    type: Int8Array
    """Values of `KernelType`."""
    values: dict[str, Int64Array]
    """Sizes of grid and block, registers and shared memory, -1 where not recorded."""
    facts: dict[str, NDArray[Any]]
    """What `LaunchFacts.kernels` has statistics of."""
    is_recorded: Mask
    """Whether the profiler says how much of a multiprocessor is occupied."""
    sms: Int64Array
    """Multiprocessors of the GPU, 0 where not recorded."""
    count: Int64Array
    """Kernels."""
    gpu_ns: Int64Array
    """Sum of their durations."""

    @property
    def has_launches(self) -> bool:
        """Whether the grid of any kernel is recorded."""
        return bool((self.facts["blocks"] > 0).any())

    def counted(self, rows: Int64Array, count: Int64Array, gpu_ns: Int64Array) -> Alike:
        """Some of the rows, with how many kernels they stand for."""
        return Alike(
            device=self.device[rows],
            name=self.name[rows],
            operator=self.operator[rows],
            module=self.module[rows],
            type=self.type[rows],
            values={name: column[rows] for name, column in self.values.items()},
            facts={name: column[rows] for name, column in self.facts.items()},
            is_recorded=self.is_recorded[rows],
            sms=self.sms[rows],
            count=count,
            gpu_ns=gpu_ns,
        )


def launched_alike(rank: Rank, selection: TimeSelection | None, kernel: str | None) -> Alike:
    """Kernels of a rank in some of its time, of all names if none is given."""
    every, _ = rank.remember(_every)
    count, gpu_ns = _sums(rank, selection)
    rows = np.flatnonzero(count)
    if kernel is not None:
        names = rank.gpu_work.names
        rows = rows[[names[code] == kernel for code in every.name[rows].tolist()]]
    return every.counted(rows, count[rows], gpu_ns[rows])


def _sums(rank: Rank, selection: TimeSelection | None) -> Int64Array:
    """Kernels, and the sum of their durations, for each row of all of them."""
    every, row_of_event = rank.remember(_every)
    sums = np.zeros((2, every.name.size), dtype=np.int64)
    for work in selected_work(rank, selection).values():
        row = row_of_event[work.rows]
        is_kernel = row != _NONE
        once = is_kernel & (selection or EVERYTHING).counts(work)
        np.add.at(sums[0], row[once], 1)
        np.add.at(sums[1], row[is_kernel], work.duration_ns[is_kernel])
    return sums


def _every(rank: Rank) -> tuple[Alike, Int32Array]:
    """All kernels, also of steps that are not analysed; the row of each, by that of its event."""
    of_devices = (rank.all_work(each) for each in rank.gpu_work.devices)
    work = reduce(GpuWork.followed_by, of_devices, rank.gpu_work.take(np.zeros(0, dtype=np.int64)))
    work = work.take(np.flatnonzero(rank.trace.events.kind[work.rows] == Kind.KERNEL))
    values = launch_configuration(rank, work, _RECORDED)
    _count_in_blocks(values, _launched_in_threads(rank, work))
    launch = calls_of(rank).places_of(work.launch)
    operator, module = rank.remember(operator_names)[launch], module_paths(rank).at(launch)
    groups = grouped(work.device, work.name, operator, module, *values.values())
    row_of_event = np.full(rank.trace.events.kind.size, _NONE, dtype=np.int32)
    row_of_event[work.rows] = groups.of_rows
    first = groups.first
    device, of_first = work.device[first], {name: each[first] for name, each in values.items()}
    recorded = launch_configuration(rank, work.take(first), SHARES[:2])
    facts, sms = _facts(rank, device, of_first, recorded)
    every = Alike(
        device=device,
        name=work.name[first].astype(np.int64),
        operator=operator[first],
        module=module[first],
        type=work.type[first],
        values=of_first,
        facts=facts,
        is_recorded=recorded["occupancy_percent"] > 0,
        sms=sms,
        count=groups.sizes,
        gpu_ns=groups.reduce(np.add, work.duration_ns),
    )
    return every, row_of_event


def _facts(
    rank: Rank,
    device: Int64Array,
    values: dict[str, Int64Array],
    recorded: dict[str, Float64Array],
) -> tuple[dict[str, NDArray[Any]], Int64Array]:
    """What is known of each launch, and the multiprocessors of its GPU."""
    gpus = multiprocessors(rank.trace.metadata)
    blocks, threads = (_product(values, names) for names in (GRID, BLOCK))
    registers, shared = values["registers"], values["shared_bytes"]
    sms = np.zeros(blocks.size, dtype=np.int64)
    shares = {name: np.full(blocks.size, np.nan) for name in SHARES}
    for each in np.unique(device).tolist():
        mine, gpu = np.flatnonzero(device == each), gpus[each]
        sms[mine] = gpu.sms
        fit = gpu.resident(threads[mine], registers[mine], shared[mine])
        for name, column in estimates(gpu, blocks[mine], threads[mine], fit).items():
            shares[name][mine] = column
    for name, column in recorded.items():
        said = column > 0  # the profiler writes 0 where it cannot tell
        shares[name] = np.where(said, column, shares[name])
    facts: dict[str, NDArray[Any]] = {
        "blocks": blocks,
        "threads": threads,
        "registers": registers,
        "shared_bytes": shared,
        **shares,
    }
    return facts, sms


def _launched_in_threads(rank: Rank, work: GpuWork) -> Mask:
    """Whether the call that launches each kernel takes the size of the grid in threads."""
    events = rank.trace.events
    names = events.name.values
    codes = [code for code, name in enumerate(names) if name in IN_THREADS]
    launched = work.launch >= 0
    return np.asarray(launched & np.isin(events.name.codes[work.launch], codes))


def _count_in_blocks(values: dict[str, Int64Array], in_threads: Mask) -> None:
    """Divide grids that are recorded in threads by the size of the block."""
    for grid, block in zip(GRID, BLOCK, strict=True):
        size, part = values[grid], values[block]
        divided = -(-size // np.maximum(part, 1))
        values[grid] = np.where(in_threads & (size > 0) & (part > 0), divided, size)


def _product(values: dict[str, Int64Array], names: tuple[str, ...]) -> Int64Array:
    """Product of three sizes, `NOT_RECORDED` where one is missing or nothing can hold it."""
    sizes = np.stack([values[name] for name in names])
    found = sizes.prod(axis=0)
    is_size = (sizes > 0).all(axis=0) & (sizes.astype(np.float64).prod(axis=0) < _MOST)
    return np.where(is_size, found, NOT_RECORDED)
