"""Kernels of one rank that are launched alike, and how many blocks a multiprocessor holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import module_paths
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, selected_work
from hta_widgets.arrays import Float64Array, Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.identity import GpusOfTrace
from hta_widgets.trace.ranks.launch_configuration import launch_configuration
from hta_widgets.trace.ranks.rank import Rank

IN_THREADS: Final = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
"""Launch calls that take the size of a grid in threads, and are recorded so."""

SHARES: Final = ("occupancy_percent", "blocks_per_sm", "waves")
_AXES: Final = ("x", "y", "z")
GRID: Final = tuple(f"grid_{axis}" for axis in _AXES)
BLOCK: Final = tuple(f"block_{axis}" for axis in _AXES)
_RECORDED: Final = (*GRID, *BLOCK, "registers", "shared_bytes")
_MOST: Final = 2**62
_NONE: Final = -1
NOT_RECORDED: Final = -1

MOST_BLOCKS: Final = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24, (12, 1): 24}
"""Blocks that a multiprocessor runs at a time, by compute capability; 32 on all others."""

_MOST_BLOCKS: Final = 32

_REGISTERS_AT_ONCE: Final = 256
"""Registers are allocated to warps in portions of this size."""

_PARTITIONS: Final = 4
"""Parts of a multiprocessor, each with its share of the registers; a warp stays in one."""

_RESERVED: Final = 1024

_RESERVING: Final = (8, 0)
"""Compute capability from which each block reserves shared memory for the system."""

_UNLIMITED: Final = 2**31

_SIZES: Final = {
    "sms": ("multiProcessorCount", "numSms"),  # a tool wrote the shared memory into numSms
    "warp_threads": ("warpSize",),
    "threads": ("maxThreadsPerMultiprocessor",),
    "registers": ("regsPerMultiprocessor",),
    "shared_bytes": ("sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
}


@dataclass(frozen=True, eq=False)
class Alike:
    """One row for all kernels launched alike, by the same operator in the same module."""

    device: Int64Array
    name: Int64Array
    """Code of the kernel's name, -1 for none."""
    operator: Int64Array
    """Code of the operator's name, -1 for none."""
    module: Int64Array
    """Code of the path of the module, -1 for none."""
    type: Int8Array
    """Values of `KernelType`."""
    values: dict[str, Int64Array]
    """Sizes of grid and block, registers and shared memory, -1 where not recorded."""
    facts: dict[str, NDArray[Any]]
    """Values for which `LaunchFacts.kernels` has statistics."""
    is_recorded: Mask
    """Whether the profiler records how much of a multiprocessor is occupied."""
    sms: Int64Array
    """Multiprocessors of the GPU, 0 where not recorded."""
    count: Int64Array
    """Number of kernels."""
    gpu_ns: Int64Array
    """Sum of their durations."""

    @property
    def has_launches(self) -> bool:
        """Whether the grid of any kernel is recorded."""
        return bool((self.facts["blocks"] > 0).any())

    def counted(self, rows: Int64Array, count: Int64Array, gpu_ns: Int64Array) -> Alike:
        """Some of the rows, with a new number of kernels for each, and the sum of durations."""
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
    """Kernels of a rank in some of its time, with any name if none is given."""
    every, _ = _every(rank)
    count, gpu_ns = _sums(rank, selection)
    rows = np.flatnonzero(count)
    if kernel is not None:
        names = rank.gpu_work.names
        rows = rows[[names[code] == kernel for code in every.name[rows].tolist()]]
    return every.counted(rows, count[rows], gpu_ns[rows])


def _sums(rank: Rank, selection: TimeSelection | None) -> Int64Array:
    """Number of selected kernels and the sum of their durations, for each row of all kernels."""
    every, row_of_event = _every(rank)
    sums = np.zeros((2, every.name.size), dtype=np.int64)
    for work in selected_work(rank, selection).values():
        row = row_of_event[work.rows]
        is_kernel = row != _NONE
        once = is_kernel & (selection or EVERYTHING).counts(work)
        np.add.at(sums[0], row[once], 1)
        np.add.at(sums[1], row[is_kernel], work.duration_ns[is_kernel])
    return sums


@asked_once
def _every(rank: Rank) -> tuple[Alike, Int32Array]:
    """All kernels, also in steps that are not analysed; and the row of each event's kernel."""
    of_devices = (rank.all_work(each) for each in rank.gpu_work.devices)
    work = GpuWork.joined((rank.gpu_work.take(np.zeros(0, dtype=np.int64)), *of_devices))
    work = work.take(np.flatnonzero(rank.trace.events.kind[work.rows] == Kind.KERNEL))
    values = launch_configuration(rank, work, _RECORDED)
    _count_in_blocks(values, _launched_in_threads(rank, work))
    calls = calls_of(rank)
    launch = calls.places_of(work.launch)
    operator = np.append(calls.name, _NONE).astype(np.int64)[calls.operator[launch]]
    module = module_paths(rank).at(launch)
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
    """What is known about each launch, and the multiprocessors of its GPU."""
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
        said = column > 0  # the profiler writes 0 if it does not know
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
    """Product of three sizes, `NOT_RECORDED` if one is missing or nothing can hold the product."""
    sizes = np.stack([values[name] for name in names])
    found = sizes.prod(axis=0)
    is_size = (sizes > 0).all(axis=0) & (sizes.astype(np.float64).prod(axis=0) < _MOST)
    return np.where(is_size, found, NOT_RECORDED)


def longest(group: Int64Array, codes: Int64Array, gpu_ns: Int64Array) -> Int64Array:
    """The code with the most time in each group."""
    parts = grouped(group, codes)
    of_part, total_ns = group[parts.first], parts.reduce(np.add, gpu_ns)
    order = np.lexsort((-total_ns, of_part))
    heads = order[np.flatnonzero(np.diff(of_part[order], prepend=-1))]
    return codes[parts.first[heads]]


def statistics(
    name: str, values: NDArray[Any], group: Int64Array, gpu_ns: Int64Array, size: int
) -> dict[str, NDArray[Any]]:
    """Median over the time, minimum and maximum of the recorded values of each group."""
    weight = np.maximum(gpu_ns, 1)
    missing = NOT_RECORDED if values.dtype.kind == "i" else np.nan
    found = [np.full(size, missing) for _ in range(3)]
    known = np.flatnonzero(values >= 0)
    order = known[np.lexsort((values[known], group[known]))]
    there, first = np.unique(group[order], return_index=True)
    last = np.append(first[1:], order.size)[: first.size] - 1
    reached = np.cumsum(weight[order])
    before = (reached - weight[order])[first]
    middle = before + (reached[last] - before - 1) // 2
    place = np.searchsorted(reached, middle, side="right")
    for column, at in zip(found, (place, first, last), strict=True):
        column[there] = values[order[at]]
    return dict(zip((name, f"{name}_min", f"{name}_max"), found, strict=True))


class Multiprocessors(NamedTuple):
    """The multiprocessors (SMs, compute units) of a GPU; 0 for what is not recorded."""

    sms: int = 0
    """Number of multiprocessors of the GPU."""
    warp_threads: int = 0
    """Threads of a warp (wavefront)."""
    threads: int = 0
    registers: int = 0
    shared_bytes: int = 0
    blocks: int = _MOST_BLOCKS
    """This field and the three above: what a multiprocessor holds at a time."""
    reserved_bytes: int = 0
    """Shared memory that each block takes in addition to what it asks for."""

    @property
    def are_known(self) -> bool:
        """Whether enough is recorded to know how many blocks fit."""
        return min(self.sms, self.warp_threads, self.threads) > 0

    def warps(self, threads: Int64Array) -> Int64Array:
        """Number of warps of blocks with some number of threads."""
        return np.asarray(-(-threads // max(self.warp_threads, 1)))

    def resident(
        self, threads: Int64Array, registers: Int64Array, shared_bytes: Int64Array
    ) -> Int64Array:
        """Number of blocks that fit on one multiprocessor, 0 if not known.

        ROCm records neither registers nor shared memory: "100 % occupancy" was reported for
        products of which one block, with 57 kB, fills the 64 kB of a compute unit.
        """
        fitting = [*self.fitting(threads, registers, shared_bytes).values()]
        known = (threads > 0) & (registers > 0) & (shared_bytes >= 0) & self.are_known
        return np.where(known, np.min(fitting, axis=0), 0)

    def fitting(
        self, threads: Int64Array, registers: Int64Array, shared_bytes: Int64Array
    ) -> dict[str, Int64Array]:
        """Number of blocks that each resource of a multiprocessor lets run."""
        warps = self.warps(np.maximum(threads, 1))
        of_warp = -(-registers * self.warp_threads // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
        in_registers = _quotient(self.registers // _PARTITIONS, of_warp) * _PARTITIONS
        return {
            "blocks": np.full(threads.size, self.blocks),
            "threads": self.threads // (warps * max(self.warp_threads, 1)),
            "registers": in_registers // warps,
            "shared_bytes": _quotient(self.shared_bytes, shared_bytes + self.reserved_bytes),
        }


def _quotient(whole: int, part: Int64Array) -> Int64Array:
    limits = (part > 0) & (whole > 0)
    return np.where(limits, whole // np.maximum(part, 1), _UNLIMITED)


def multiprocessors(metadata: Mapping[str, Any]) -> GpusOfTrace[Multiprocessors]:
    """Multiprocessors of the GPUs that the metadata of a trace describes, by device number."""
    return GpusOfTrace(metadata, _multiprocessors)


def _multiprocessors(described: Mapping[str, Any]) -> Multiprocessors:
    version = (_first(described, ("computeMajor",)), _first(described, ("computeMinor",)))
    is_nvidia = "sharedMemPerMultiprocessor" in described
    return Multiprocessors(
        **{name: _first(described, keys) for name, keys in _SIZES.items()},
        blocks=MOST_BLOCKS.get(version, _MOST_BLOCKS),
        reserved_bytes=_RESERVED if is_nvidia and version >= _RESERVING else 0,
    )


def estimates(
    gpu: Multiprocessors, blocks: Int64Array, threads: Int64Array, fit: Int64Array
) -> dict[str, Float64Array]:
    """Blocks per multiprocessor, waves and occupancy; NaN where not known."""
    per_sm = np.full(blocks.size, np.nan)
    np.divide(blocks, gpu.sms, out=per_sm, where=(blocks > 0) & (gpu.sms > 0))
    known = (fit > 0) & ~np.isnan(per_sm)
    waves, share = np.full(blocks.size, np.nan), np.full(blocks.size, np.nan)
    np.divide(per_sm, fit, out=waves, where=known)
    running = gpu.warps(threads) * gpu.warp_threads * np.minimum(per_sm, fit)
    np.divide(100 * running, gpu.threads, out=share, where=known)
    return {"occupancy_percent": share, "blocks_per_sm": per_sm, "waves": waves}


def _first(described: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """The first of some whole numbers that exists and is not negative; else 0."""
    values = (whole_number(described.get(key), _UNLIMITED) for key in keys)
    return next((value for value in values if value is not None and value >= 0), 0)
