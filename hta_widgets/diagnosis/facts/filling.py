"""How much of a GPU a kernel fills, by how it is launched, and what limits that."""

from __future__ import annotations

import re
from math import ceil
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.launch_facts.alike import Multiprocessors, multiprocessors
from hta_widgets.analyses.time.rows import Row
from hta_widgets.diagnosis.facts.gpus import Gpu
from hta_widgets.quantities import percent
from hta_widgets.trace.ranks.rank import Rank

LOW_OCCUPANCY: Final = 25.0
"""Occupancy (%) up to which it is worth saying that registers limit it: with more, other threads
usually hide what one waits for. A kernel with 188 registers had 12.5 %, and the diagnosis said that
the trace cannot tell how to speed it up."""

EMPTY_WAVE: Final = 0.1
"""Share of the places for blocks that the last wave leaves empty in all waves together, from which
it is said: of 50 s, a kernel of 40 blocks on 28 multiprocessors spent half with 16 of them idle."""

_DOUBLE: Final = re.compile(r"\bdouble\b")
_FAST_FLOAT64: Final = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
"""Compute capabilities of GPUs with a float64 unit for two of float32."""

_MAXWELL: Final = (5, 0)


class Filling(NamedTuple):
    """What the launch of a kernel says about how it fills the GPU; empty or 0 if nothing."""

    registers: int = 0
    """Registers of a thread, if they are why the occupancy is low."""
    waves: str = ""
    """How many waves the blocks make, and what the last one fills, if that is little."""


def multiprocessors_of(rank: Rank) -> Multiprocessors:
    """Multiprocessors of the device with most of a rank's work."""
    return multiprocessors(rank.trace.metadata)[rank.gpu_work.main_device]


def filling(kernel: Row, gpu: Multiprocessors) -> Filling:
    """Judge a row of `kernels_by_name`, all of whose launches have blocks of one size."""
    sizes = (np.array([kernel[name]]) for name in ("threads", "registers", "shared_bytes"))
    threads, registers, shared = sizes
    (fit,) = gpu.resident(threads, registers, shared).tolist()
    if not fit:
        return Filling()
    (fit_by_others,) = gpu.resident(threads, np.ones_like(registers), shared).tolist()
    is_low = 0 <= kernel["occupancy_percent"] <= LOW_OCCUPANCY and fit < fit_by_others
    at_once = fit * gpu.sms
    waves = kernel["blocks"] / at_once
    said = ""
    if waves > 1 and ceil(waves) - waves >= EMPTY_WAVE * ceil(waves):
        last = kernel["blocks"] - (ceil(waves) - 1) * at_once
        fills = f"in the last one, {last:,} of {gpu.sms:,} multiprocessors work"
        if fit > 1:
            fills = f"the last one fills {percent(100 * last / at_once)} of the GPU"
        said = f"{waves:.3g} waves: {fills}"
    return Filling(kernel["registers"] if is_low else 0, said)


def slow_doubles(name: str, gpu: Gpu) -> str:
    """How many arguments are ``double``, if most are, on a GPU with few float64 units; or nothing.

    A kernel with 77 of 80 such arguments ran for 50 s on a GeForce, where float64 has 1/64 of the
    rate of float32. No GPU without fast float64 has more than 1/32 of it.
    """
    arguments = name.rpartition("(")[2].split(",") if name.endswith(")") else []
    double = sum(map(bool, map(_DOUBLE.search, arguments)))
    is_slow = (gpu.major, gpu.minor) >= _MAXWELL and (gpu.major, gpu.minor) not in _FAST_FLOAT64
    is_most = 2 * double > len(arguments)
    words = f"{double} of {len(arguments)} arguments double or pointers to it"
    return words if is_slow and is_most else ""
