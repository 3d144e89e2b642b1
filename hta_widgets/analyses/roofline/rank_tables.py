"""What the operators of one rank compute and move."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.roofline.counted import CountedKernels, counted_kernels
from hta_widgets.analyses.roofline.peaks import GIGA, TERA, Device, Devices, devices_of
from hta_widgets.analyses.time.rows import Row, table_of
from hta_widgets.analyses.time.window import window_of
from hta_widgets.grouping import Groups, grouped
from hta_widgets.trace.model.formats import Format, Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank

SHORT_NS: Final = 10_000
LAUNCH_BOUND_PERCENT: Final = 5
"""Operators of shorter kernels that reach less of the peak are bound by launching."""

_GIVEN = {"rank": np.int64, "device": np.int64}
OPERATORS: Final = {
    **_GIVEN,
    **dict.fromkeys(("operator", "input_dims", "input_types"), object),
    **dict.fromkeys(("calls", "kernels", "flop", "bytes", "gpu_ns"), np.int64),
    **dict.fromkeys(("tflops", "gb_per_s", "intensity"), np.float64),
    "bound": object,
    "percent_of_peak": np.float64,
    **dict.fromkeys(("dtype", "module", "counted"), object),
}
UNCOUNTED: Final = {
    **_GIVEN,
    **dict.fromkeys(("operator", "reason"), object),
    **dict.fromkeys(("kernels", "gpu_ns"), np.int64),
    "share_percent": np.float64,
}
DEVICES: Final = {
    **_GIVEN,
    "name": object,
    **dict.fromkeys(
        (
            "memory_bytes",
            "kernels",
            "kernel_ns",
            "flop",
            "flop_ns",
            "bytes_ns",
            "uncounted_ns",
            "window_ns",
        ),
        np.int64,
    ),
    **dict.fromkeys(("tflops", "mfu_percent", "coverage_percent"), np.float64),
}

NO_SHAPES: Final = Notice("no shapes were recorded (record_shapes=True records them)")


class RankRoofline(NamedTuple):
    """Tables of `Roofline` of one rank."""

    operators: pd.DataFrame
    uncounted: pd.DataFrame
    devices: pd.DataFrame
    notices: tuple[Notice, ...]


def roofline_tables(rank: Rank) -> RankRoofline:
    """What the operators of a rank compute and move; reads values of inputs from the source."""
    kernels = counted_kernels(rank)
    devices = devices_of(rank.trace.metadata)
    operators = _operators(rank, kernels, devices)
    uncounted = _uncounted(rank, kernels)
    no_shapes = len(kernels.duration_ns) and not kernels.has_shapes and records_shapes(rank.format)
    return RankRoofline(
        operators=operators,
        uncounted=uncounted,
        devices=_devices(rank, kernels, devices, operators),
        notices=(NO_SHAPES,) if no_shapes else (),
    )


def records_shapes(form: Format) -> bool:
    """Whether traces of a format can have shapes."""
    return Recorded.OPERATORS not in form.lacks


def _operators(rank: Rank, kernels: CountedKernels, devices: Devices) -> pd.DataFrame:
    """Counted operators by their shape, longest first."""
    chosen = kernels.take(np.flatnonzero(kernels.cost >= 0))
    groups = grouped(chosen.device, chosen.name, chosen.dims, chosen.types, chosen.counted)
    rows = [
        _row(rank, chosen.take(part), devices[int(chosen.device[part[0]])]) for part in groups.parts
    ]
    rows.sort(key=lambda row: -row["gpu_ns"])
    return table_of(rows, OPERATORS)


def _row(rank: Rank, kernels: CountedKernels, device: Device) -> Row:
    """One operator with one shape."""
    gpu_ns = int(kernels.duration_ns.sum())
    _, first = np.unique(kernels.place, return_index=True)
    costs = [kernels.costs[code] for code in kernels.cost[first].tolist()]
    flop, moved = sum(each.flop for each in costs), sum(each.bytes for each in costs)
    dtype = kernels.dtype(costs[0].dtype)
    peak = device.peak
    compute_s = flop / (peak.tflops[dtype] * TERA) if peak and dtype in peak.tflops else np.nan
    move_s = moved / (peak.gb_per_s * GIGA) if peak else np.nan
    least_s = float(np.maximum(compute_s, move_s)) if flop else move_s
    percent = 100 * least_s / (gpu_ns / GIGA) if gpu_ns else np.nan
    return {
        "rank": rank.trace.rank,
        "device": int(kernels.device[0]),
        **kernels.described(),
        "calls": len(costs),
        "kernels": kernels.duration_ns.size,
        "flop": flop,
        "bytes": moved,
        "gpu_ns": gpu_ns,
        "tflops": flop / gpu_ns / 1000 if flop and gpu_ns else np.nan,
        "gb_per_s": moved / gpu_ns if gpu_ns else np.nan,
        "intensity": flop / moved if moved else np.nan,
        "bound": _bound(kernels, percent, is_computing=bool(flop) and compute_s >= move_s),
        "percent_of_peak": percent,
        "dtype": dtype,
        "module": kernels.module(),
    }


def _bound(kernels: CountedKernels, percent: float, *, is_computing: bool) -> str:
    if np.isnan(percent):
        return "unknown"
    if np.median(kernels.duration_ns) < SHORT_NS and percent < LAUNCH_BOUND_PERCENT:
        return "launch"
    return "compute" if is_computing else "memory"


def _uncounted(rank: Rank, kernels: CountedKernels) -> pd.DataFrame:
    """Kernels that are not counted by operator and reason, longest first."""
    rest = np.flatnonzero(kernels.cost < 0)
    groups: Groups = grouped(kernels.device[rest], kernels.name[rest], kernels.cost[rest])
    total: dict[int, int] = {
        int(device): int(kernels.duration_ns[kernels.device == device].sum())
        for device in np.unique(kernels.device)
    }
    rows: list[Row] = []
    for part in groups.parts:
        mine = kernels.take(rest[part])
        device, gpu_ns = int(mine.device[0]), int(mine.duration_ns.sum())
        rows.append(
            {
                "rank": rank.trace.rank,
                "device": device,
                "operator": mine.operator(),
                "reason": mine.reason(),
                "kernels": part.size,
                "gpu_ns": gpu_ns,
                "share_percent": 100 * gpu_ns / total[device] if total[device] else 0.0,
            }
        )
    rows.sort(key=lambda row: -row["gpu_ns"])
    return table_of(rows, UNCOUNTED)


def _devices(
    rank: Rank, kernels: CountedKernels, devices: Devices, operators: pd.DataFrame
) -> pd.DataFrame:
    window_ns = window_of(rank).end_ns - window_of(rank).start_ns
    rows = []
    for number in np.unique(kernels.device).tolist():
        mine = kernels.duration_ns[kernels.device == number]
        of_device = operators[operators["device"] == number]
        computing = of_device[of_device["flop"] > 0]
        flop, flop_ns = int(computing["flop"].sum()), int(computing["gpu_ns"].sum())
        counted_ns = int(of_device["gpu_ns"].sum())
        device = devices[number]
        rows.append(
            {
                "rank": rank.trace.rank,
                "device": number,
                "name": device.name,
                "memory_bytes": device.memory_bytes,
                "kernels": mine.size,
                "kernel_ns": int(mine.sum()),
                "flop": flop,
                "flop_ns": flop_ns,
                "bytes_ns": counted_ns - flop_ns,
                "uncounted_ns": int(mine.sum()) - counted_ns,
                "window_ns": window_ns,
                "tflops": flop / flop_ns / 1000 if flop_ns else np.nan,
                "mfu_percent": _mfu(computing, device, window_ns),
                "coverage_percent": 100 * flop_ns / mine.sum() if mine.sum() else np.nan,
            }
        )
    return table_of(rows, DEVICES)


def _mfu(computing: pd.DataFrame, device: Device, window_ns: int) -> float:
    """Time that the counted FLOP take at the peaks of their types, of the window, in %."""
    peak = device.peak
    if peak is None or not window_ns or computing.empty:
        return float("nan")
    if not set(computing["dtype"]) <= set(peak.tflops):
        return float("nan")
    rates: NDArray[Any] = computing["dtype"].map(dict(peak.tflops)).to_numpy(dtype=float)
    return float(100 * (computing["flop"] / rates).sum() / 1000 / window_ns)
