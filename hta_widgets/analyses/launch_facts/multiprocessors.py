"""What one multiprocessor of a GPU can hold, and how many blocks of a kernel fit on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.ranks.described_gpus import described_gpus

MOST_BLOCKS: Final = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24, (12, 1): 24}
"""Blocks that a multiprocessor runs at a time by compute capability; 32 on all others."""

_MOST_BLOCKS: Final = 32
_REGISTERS_AT_ONCE: Final = 256
"""Registers are given to warps in portions of this size."""

_PARTITIONS: Final = 4
"""Parts of a multiprocessor, each with its share of the registers; a warp stays in one."""

_RESERVED: Final = 1024
_RESERVING: Final = (8, 0)
"""Compute capability from which each block takes shared memory for the system."""

_UNLIMITED: Final = 2**31
_SIZES: Final = {
    "sms": ("numSms",),
    "warp_threads": ("warpSize",),
    "threads": ("maxThreadsPerMultiprocessor",),
    "registers": ("regsPerMultiprocessor",),
    "shared_bytes": ("sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
}


class Multiprocessors(NamedTuple):
    """The multiprocessors (SMs, compute units) of a GPU; 0 where something is not recorded."""

    sms: int = 0
    """How many the GPU has."""
    warp_threads: int = 0
    """Threads of a warp (wavefront)."""
    threads: int = 0
    registers: int = 0
    shared_bytes: int = 0
    blocks: int = _MOST_BLOCKS
    """This and the three above: what each of them holds at a time."""
    reserved_bytes: int = 0
    """Shared memory that each block takes besides what it asks for."""

    @property
    def are_known(self) -> bool:
        """Whether enough is recorded to say how many blocks fit."""
        return min(self.sms, self.warp_threads, self.threads) > 0

    def warps(self, threads: Int64Array) -> Int64Array:
        """Warps of blocks with some threads."""
        return np.asarray(-(-threads // max(self.warp_threads, 1)))

    def resident(
        self, threads: Int64Array, registers: Int64Array, shared_bytes: Int64Array
    ) -> Int64Array:
        """Blocks that fit on one multiprocessor, 0 where that is not known.

        Parameters
        ----------
        threads, registers, shared_bytes : ndarray of int64
            Threads of a block, registers of a thread, shared memory of a block; -1 or 0 where it is
            not recorded, which does not limit them.
        """
        warps = self.warps(np.maximum(threads, 1))
        of_warp = -(-registers * self.warp_threads // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
        in_registers = _quotient(self.registers // _PARTITIONS, of_warp) * _PARTITIONS
        fitting = [
            np.full(threads.size, self.blocks),
            self.threads // (warps * max(self.warp_threads, 1)),
            in_registers // warps,
            _quotient(self.shared_bytes, np.maximum(shared_bytes, 0) + self.reserved_bytes),
        ]
        known = (threads > 0) & self.are_known
        return np.where(known, np.min(fitting, axis=0), 0)


def _quotient(whole: int, part: Int64Array) -> Int64Array:
    limits = (part > 0) & (whole > 0)
    return np.where(limits, whole // np.maximum(part, 1), _UNLIMITED)


class GpusOfTrace(dict[int, Multiprocessors]):
    """By device; one that is not listed is like the others, if these are all alike."""

    def __missing__(self, device: int) -> Multiprocessors:
        """Look at the others: the list may have the numbers of the process, not the machine."""
        alike = {*self.values()}
        return next(iter(alike)) if len(alike) == 1 else Multiprocessors()


def multiprocessors(metadata: Mapping[str, Any]) -> GpusOfTrace:
    """Multiprocessors of the GPUs that the metadata of a trace describe."""
    found = GpusOfTrace()
    for number, each in described_gpus(metadata).items():
        sizes = {name: _first(each, keys) for name, keys in _SIZES.items()}
        version = (_first(each, ("computeMajor",)), _first(each, ("computeMinor",)))
        is_nvidia = "sharedMemPerMultiprocessor" in each
        found[number] = Multiprocessors(
            **sizes,
            blocks=MOST_BLOCKS.get(version, _MOST_BLOCKS),
            reserved_bytes=_RESERVED if is_nvidia and version >= _RESERVING else 0,
        )
    return found


def estimates(
    gpu: Multiprocessors, blocks: Int64Array, threads: Int64Array, fit: Int64Array
) -> dict[str, Float64Array]:
    """Blocks per multiprocessor, waves and occupancy; NaN where they are not known."""
    per_sm = np.full(blocks.size, np.nan)
    np.divide(blocks, gpu.sms, out=per_sm, where=(blocks > 0) & (gpu.sms > 0))
    known = (fit > 0) & ~np.isnan(per_sm)
    waves, share = np.full(blocks.size, np.nan), np.full(blocks.size, np.nan)
    np.divide(per_sm, fit, out=waves, where=known)
    running = gpu.warps(threads) * gpu.warp_threads * np.minimum(per_sm, fit)
    np.divide(100 * running, gpu.threads, out=share, where=known)
    return {"occupancy_percent": share, "blocks_per_sm": per_sm, "waves": waves}


def _first(described: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """The first of some whole numbers that is there and no less than 0; else 0."""
    values = (whole_number(described.get(key), _UNLIMITED) for key in keys)
    return next((value for value in values if value is not None and value >= 0), 0)
