"""How close operators come to the peak of their GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.roofline.counted import (
    NO_SHAPES,
    NO_VALUES,
    NOT_UNDERSTOOD,
    REASONS,
    CountedKernels,
    counted_kernels,
)
from hta_widgets.analyses.roofline.peaks import GIGA, TERA, Device, Peak, devices_of, peak_of
from hta_widgets.analyses.time.rows import Columns, Row, columns_of, joined_table, largest_first
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, place_of
from hta_widgets.grouping import Groups, grouped
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import number, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.formats import Format, Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.identity import GpusOfTrace
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import graph_replay_notices, with_replayed_calls

SHORT_NS: Final = 10_000

LAUNCH_BOUND_PERCENT: Final = 5
"""Operators with short kernels that reach less of the peak than this are bound by launching."""

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

_NOT_RECORDED: Final = Notice("no shapes were recorded (record_shapes=True records them)")

WORTH_SAYING_PERCENT: Final = 3
"""Share of the kernel time at which the uncounted part is named."""

LEAST_COVERED_PERCENT: Final = 1
"""Share of the kernel time whose FLOP must be counted for an MFU: of 0.22 %, it was "at least 0.03
% of the peak", which tells nobody how well the GPU is used."""

NAME_WIDTH: Final = 60
_MISSED: Final = tuple(REASONS[code] for code in (NO_SHAPES, NO_VALUES, NOT_UNDERSTOOD))

_OPTIONS: Final = {
    REASONS[NO_SHAPES]: "record_shapes=True",
    REASONS[NO_VALUES]: "record_shapes=True in PyTorch 2.2 or later",
}

_KEYS: Final = ["operator", "input_dims", "input_types", "dtype", "counted"]
_SUMS: Final = ["calls", "kernels", "flop", "bytes", "gpu_ns"]
_OF_MOST: Final = ["bound", "module"]


class RankRoofline(NamedTuple):
    """Columns of `Roofline` of one rank."""

    operators: Columns
    uncounted: Columns
    devices: Columns
    notices: tuple[Notice, ...]


def roofline_tables(rank: Rank, selection: TimeSelection | None = None) -> RankRoofline:
    """What the operators of a rank compute and move; may read values of inputs from the trace."""
    rank = with_replayed_calls(rank)
    kernels = counted_kernels(rank, selection)
    devices = devices_of(rank.trace.metadata)
    operators = operators_by_shape(rank, kernels, devices)
    no_shapes = len(kernels.duration_ns) and not kernels.has_shapes and records_shapes(rank.format)
    return RankRoofline(
        operators=columns_of(operators, OPERATORS),
        uncounted=columns_of(_uncounted(rank, kernels), UNCOUNTED),
        devices=columns_of(_devices(rank, kernels, devices, operators, selection), DEVICES),
        notices=(_NOT_RECORDED,) if no_shapes else (),
    )


def records_shapes(form: Format) -> bool:
    """Whether traces of a format can have shapes."""
    return Recorded.OPERATORS not in form.lacks


def operators_by_shape(
    rank: Rank, kernels: CountedKernels, devices: GpusOfTrace[Device]
) -> list[Row]:
    """Counted operators by shape, longest first."""
    chosen = kernels.take(np.flatnonzero(kernels.cost >= 0))
    groups = grouped(chosen.device, chosen.name, chosen.dims, chosen.types, chosen.counted)
    rows = [
        _row(rank, chosen.take(part), devices[int(chosen.device[part[0]])]) for part in groups.parts
    ]
    rows.sort(key=lambda row: -row["gpu_ns"])
    return rows


def _row(rank: Rank, kernels: CountedKernels, device: Device) -> Row:
    """The row of one operator with one shape."""
    gpu_ns = int(kernels.duration_ns.sum())
    costs = kernels.costs_of_calls()
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
        "kernels": int(kernels.is_first.sum()),
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


def _uncounted(rank: Rank, kernels: CountedKernels) -> list[Row]:
    """Uncounted kernels by operator and reason, longest first."""
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
                "kernels": int(mine.is_first.sum()),
                "gpu_ns": gpu_ns,
                "share_percent": 100 * gpu_ns / total[device] if total[device] else 0.0,
            }
        )
    rows.sort(key=lambda row: -row["gpu_ns"])
    return rows


def _devices(
    rank: Rank,
    kernels: CountedKernels,
    devices: GpusOfTrace[Device],
    operators: Sequence[Row],
    selection: TimeSelection | None,
) -> list[Row]:
    rows: list[Row] = []
    for gpu in np.unique(kernels.device).tolist():
        window_ns = (selection or EVERYTHING).time(rank, gpu).length
        is_mine = kernels.device == gpu
        mine = kernels.duration_ns[is_mine]
        of_device = [row for row in operators if row["device"] == gpu]
        computing = [row for row in of_device if row["flop"] > 0]
        flop, flop_ns = (sum(row[name] for row in computing) for name in ("flop", "gpu_ns"))
        counted_ns = sum(row["gpu_ns"] for row in of_device)
        device = devices[gpu]
        rows.append(
            {
                "rank": rank.trace.rank,
                "device": gpu,
                "name": device.name,
                "memory_bytes": device.memory_bytes,
                "kernels": int(kernels.is_first[is_mine].sum()),
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
    return rows


def _mfu(computing: Sequence[Row], device: Device, window_ns: int) -> float:
    """Time that the counted FLOP take at the peaks of their types, in % of the window."""
    peak = device.peak
    if peak is None or not window_ns or not computing:
        return float("nan")
    if not {row["dtype"] for row in computing} <= {*peak.tflops}:
        return float("nan")
    times = np.array([row["flop"] / peak.tflops[row["dtype"]] for row in computing])
    return float(100 * times.sum() / 1000 / window_ns)


def roofline_finding(
    devices: pd.DataFrame,
    uncounted: pd.DataFrame,
    *,
    can_have_shapes: bool = True,
    with_rest: bool = True,
    place: str = "on the selected ranks",
    time: str = "the analysed time",
) -> str:
    """Sentence on the counted rate, the MFU with its coverage, and the uncounted rest.

    If there are no shapes, the sentence depends on whether the format of any trace can have them.
    The place and the time say in words what is counted. Without the rest, it is empty if next to
    nothing is counted, as with most matrix products in CUDA graphs.
    """
    kernel_ns = int(devices["kernel_ns"].sum())
    if not kernel_ns:
        return f"No kernels were recorded {place}."
    flop, flop_ns = int(devices["flop"].sum()), int(devices["flop_ns"].sum())
    rest = _largest_rest(uncounted, kernel_ns)
    if not flop_ns:
        is_all = not int(devices["bytes_ns"].sum())
        missed = _no_shapes(uncounted, place, is_all=is_all, can_have_shapes=can_have_shapes)
        none = f"No matrix products, convolutions or attention with recorded shapes ran {place}."
        return missed or (f"{none} {rest}".rstrip() if with_rest else "")
    is_covered = 100 * flop_ns >= LEAST_COVERED_PERCENT * kernel_ns
    if not (is_covered or with_rest):
        return ""
    rate, share = number(flop / flop_ns / 1000), percent(100 * flop_ns / kernel_ns)
    # 3.11 % of the kernel time were no contradiction to 34 of 118 ms in products
    which = " of known shapes" if rest and not with_rest else ""
    said = (
        f"Matrix products, convolutions and attention{which} reach {rate} "
        f"TFLOP/s in {share} of the kernel time"
    )
    mfu = devices["mfu_percent"]
    if mfu.notna().all() and is_covered:
        windows = devices["window_ns"]
        of_all = float((mfu * windows).sum() / windows.sum())
        at_least = "at least " if rest else ""
        said += f"; the MFU over {time} is {at_least}{percent(of_all)} of {_name(devices)}"
    return f"{said}. {rest}" if rest and with_rest else f"{said}."


def _no_shapes(uncounted: pd.DataFrame, place: str, *, is_all: bool, can_have_shapes: bool) -> str:
    """Say that no shapes are known; empty if those of other operators are."""
    by_reason = uncounted[uncounted["reason"].isin(_MISSED)].groupby("reason")["gpu_ns"].sum()
    reason = str(by_reason.idxmax()) if len(by_reason) and can_have_shapes else ""
    option = _OPTIONS.get(reason)
    if not option and not is_all:
        return ""
    missing = "input values" if reason == REASONS[NO_VALUES] else "shapes"
    said = (
        f"No {missing} of matrix products, convolutions or attention were recorded {place}, so "
        "their TFLOP/s are unknown"
    )
    return f"{said} ({option} records them)." if option else f"{said}."


def _name(devices: pd.DataFrame) -> str:
    names = sorted(set(devices["name"]))
    return f"the peak of {names[0]}" if len(names) == 1 else "the peaks of the devices"


def _largest_rest(uncounted: pd.DataFrame, kernel_ns: int) -> str:
    """The largest reason for which kernels are not counted, with its largest operator."""
    by_reason = uncounted.groupby("reason")["gpu_ns"].sum()
    if by_reason.empty or 100 * by_reason.sum() < WORTH_SAYING_PERCENT * kernel_ns:
        return ""
    reason, most_ns = str(by_reason.idxmax()), int(by_reason.max())
    said = (
        f"{percent(100 * by_reason.sum() / kernel_ns)} of the kernel time is not counted "
        f"({percent(100 * most_ns / kernel_ns)}: {reason}"
    )
    mine = uncounted[(uncounted["reason"] == reason) & (uncounted["operator"] != "")]
    by_operator = mine.groupby("operator")["gpu_ns"].sum()
    if len(by_operator):
        said += f", most of it {short_name(str(by_operator.idxmax()), NAME_WIDTH)}"
    return f"{said})."


@dataclass(frozen=True, kw_only=True, eq=False)
class Roofline(Result):
    """FLOP and bytes of operators by shape, compared with the peaks of their GPU.

    For each rank and device, the GPU time of `operators` and of `uncounted` adds up exactly to the
    durations of all analysed kernels. These are durations, not wall time: kernels on several
    streams add up. FLOP and bytes are those of all calls; all times are int64 ns.

    Attributes
    ----------
    operators : DataFrame
        One row per operator and shape, longest first: ``rank``, ``device``, ``operator``,
        ``input_dims``, ``input_types`` (JSON), ``calls`` (that launched kernels), ``kernels``,
        ``flop``, ``bytes`` (the least that can be moved), ``gpu_ns``, ``tflops`` (TFLOP/s, NaN
        if only bytes are counted), ``gb_per_s``, ``intensity`` (FLOP per byte), ``bound``
        (``compute``, ``memory``, ``launch`` or, if no peak is known, ``unknown``),
        ``percent_of_peak`` (the time at the peak rates, in percent of ``gpu_ns``; NaN if unknown),
        ``dtype``, ``module`` (path of the one with most of the time), ``counted`` (``flop``,
        ``bytes`` or, for compiled operators, ``inputs only``).
    uncounted : DataFrame
        The other kernels, longest first: ``rank``, ``device``, ``operator`` (empty for none),
        ``reason``, ``kernels``, ``gpu_ns``, ``share_percent`` (of the kernels of the device).
    devices : DataFrame
        One row per rank and device: ``name`` (empty if not recorded), ``memory_bytes``
        (of the device, 0 if not recorded), ``kernels``, ``kernel_ns``,
        ``flop``, ``flop_ns`` (GPU time of operators whose FLOP are counted), ``bytes_ns`` (GPU time
        of operators for which only the bytes are counted), ``uncounted_ns``, ``window_ns`` (the
        analysed time, see `IdleOwners`, or the selected part of it), ``tflops`` (over ``flop_ns``),
        ``mfu_percent`` (the time that the counted FLOP take at the dense peaks of their types, in
        percent of the window; NaN without a known peak), ``coverage_percent`` (``flop_ns`` in
        percent of ``kernel_ns``).
    """

    operators: pd.DataFrame
    uncounted: pd.DataFrame
    devices: pd.DataFrame

    @property
    def peak(self) -> Peak | None:
        """The peak of all GPUs; None if it is not known, or if they differ."""
        columns = (self.devices[name].tolist() for name in ("name", "memory_bytes"))
        peaks = {peak_of(name, size) for name, size in zip(*columns, strict=True)}
        return next(iter(peaks)) if len(peaks) == 1 else None


def roofline(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> Roofline:
    """Compare what operators compute and move with the peak of their GPU.

    A kernel belongs to the nearest product, convolution or attention around its launch, or else to
    the innermost operator; each call counts once, however many kernels it launches. FLOP are
    counted for products, convolutions and attention, and bytes for elementwise operators, norms and
    copies. Operators without shapes, or without values that the formula needs, are not counted;
    nothing is guessed.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty. The FLOP and bytes
        of a call whose kernels cross an edge are divided like its GPU time.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(roofline_tables, chosen, selection)
    operators, uncounted, devices = (
        joined_table([getattr(each, name) for each in by_rank.values()])
        for name in ("operators", "uncounted", "devices")
    )
    notices = {rank: each.notices for rank, each in by_rank.items()}
    can_have_shapes = any(records_shapes(job.sources[rank].format) for rank in chosen)
    finding = roofline_finding(
        devices,
        uncounted,
        can_have_shapes=can_have_shapes,
        place=place_of(selection),
        time="the analysed time" if selection is None else "the selected time",
    )
    said_in_finding = operators.empty and "record_shapes" in finding
    return Roofline(
        operators=largest_first(operators, "gpu_ns"),
        uncounted=largest_first(uncounted, "gpu_ns"),
        devices=devices,
        finding=finding,
        notices=(
            *job.notices_for(chosen, Recorded.KERNELS, Recorded.OPERATORS),
            *job.noticed(graph_replay_notices, chosen),
            *(() if said_in_finding else job.merged(notices)),
        ),
    )


def over_ranks(operators: pd.DataFrame) -> pd.DataFrame:
    """Sum `Roofline.operators` over ranks and devices, longest first.

    Rates and shares are those of the sums; ``bound`` and ``module`` are those with most of the
    time.
    """
    if operators.groupby(["rank", "device"]).ngroups <= 1:
        return operators.drop(columns=["rank", "device"])
    longest_first = operators.sort_values("gpu_ns", ascending=False, kind="stable")
    known = longest_first.assign(
        at_peak_ns=longest_first["percent_of_peak"] * longest_first["gpu_ns"]
    )
    groups = known.groupby(_KEYS, sort=False, dropna=False)
    found = groups[[*_SUMS]].sum()
    found["at_peak_ns"] = groups["at_peak_ns"].sum(min_count=1)
    found = found.join(groups[_OF_MOST].first()).reset_index()
    gpu_ns = found["gpu_ns"].where(found["gpu_ns"] > 0)
    found["tflops"] = (found["flop"] / gpu_ns / 1000).where(found["flop"] > 0, np.nan)
    found["gb_per_s"] = found["bytes"] / gpu_ns
    found["intensity"] = found["flop"] / found["bytes"].where(found["bytes"] > 0)
    found["percent_of_peak"] = found.pop("at_peak_ns") / gpu_ns
    return largest_first(found, "gpu_ns")


_SHAPE: Final = re.compile(r"\[([\d\s,]*\d[\d\s,]*)\]")
_DIMENSION: Final = re.compile(r"\d+")
_SHAPES: Final = 3
_OF_TWO: Final = ("aten::mm", "aten::bmm")
"""Products of two inputs; compiled code calls them with a third shape, that of the output."""


def operator_label(row: Row) -> str:
    """Operator and the shapes of at most `_SHAPES` of its tensors.

    Examples
    --------
    >>> operator_label({"operator": "aten::addmm", "input_dims": "[[5], [2, 3], [3, 5], [], []]"})
    'aten::addmm 5 · 2×3 · 3×5'
    >>> operator_label({"operator": "aten::mm", "input_dims": "[[2, 3], [3, 5], [2, 5]]"})
    'aten::mm 2×3 · 3×5'
    """
    found = _SHAPE.findall(row["input_dims"])
    if row["operator"] in _OF_TWO:
        found = found[:2]
    shapes = ["×".join(_DIMENSION.findall(shape)) for shape in found[:_SHAPES]]
    return f"{row['operator']} {' · '.join(shapes)}" + " …" * (len(found) > _SHAPES)
