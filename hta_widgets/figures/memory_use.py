"""Figures of memory use: its curve on each device, and what is alive at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import numpy as np
import pandas as pd

from hta_widgets.analyses.memory_use import MemoryUse, device_name
from hta_widgets.analyses.memory_use.owners import CATEGORIES, NO_BLOCKS
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.figures.base.drawing import Drawing, selecting
from hta_widgets.figures.base.step_lines import STRIPS_AT_MOST, StepLine, StepLines, step_lines
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    NEUTRAL,
    TYPE_COLORS,
    axis,
    bar_marker,
    height_for_rows,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted, data_size, data_unit, percent

OwnerColumn: TypeAlias = Literal["caller", "module"]

POINTS_AT_MOST: Final = 2000
RESERVED: Final = NEUTRAL
ALLOCATED: Final = TYPE_COLORS["MEMORY"]
UNOWNED: Final = {"caller": "(no operator)", "module": "(no module)"}

_SELECTS: Final = {"caller": "operators", "module": "modules"}
_MARKERS: Final = {
    "before the recording": bar_marker(NEUTRAL, "/"),
    "temporary": bar_marker(CLASS_COLORS["late_launching"]),
    "activation": bar_marker(CLASS_COLORS["compute"]),
    "gradient": bar_marker(CLASS_COLORS["transfer"]),
    "optimizer state": bar_marker(CLASS_COLORS["data_loading"]),
    "other": bar_marker(CLASS_COLORS["other_idle"]),
    "unknown": bar_marker(NEUTRAL, "."),
}


def memory_lines(
    result: MemoryUse, shift_ns: Mapping[int, int] = MappingProxyType({})
) -> StepLines:
    """Lines of allocated memory, in front of reserved memory, on each device.

    With more than `STRIPS_AT_MOST` devices, only those with the highest peaks get lines.
    """
    peaks = result.peak["bytes"].to_numpy()
    chosen = np.sort(np.argsort(-peaks, kind="stable")[:STRIPS_AT_MOST])
    several = len(set(result.peak["rank"])) > 1
    curves = dict(iter(result.curve.groupby(["rank", "device_type", "device"], sort=False)))
    lines: list[StepLine] = []
    for row in records(result.peak.iloc[chosen]):
        curve = curves[row["rank"], row["device_type"], row["device"]]
        time_ns = curve["time_ns"].to_numpy() + shift_ns.get(row["rank"], 0)
        lines += _lines_of(row, time_ns, curve, name_rank=several)
    return StepLines(lines, in_all=len(lines) + len(peaks) - len(chosen))


def memory_curve(lines: StepLines, *, window_us: Sequence[float] = ()) -> Drawing:
    """Draw the `memory_lines` of all devices with at most `POINTS_AT_MOST` points."""
    return step_lines(lines, window_us=window_us, points=POINTS_AT_MOST)


def alive_at_peak(
    table: pd.DataFrame, *, by: OwnerColumn = "caller", num_owners: int = 10
) -> Drawing:
    """Draw what is alive at the peak of one device by owner and category, largest first.

    The table has the device's rows of `MemoryUse.alive_at_peak`. A bar is a caller or a module, and
    a click selects it.
    """
    whole = int(table["bytes"].sum())
    sizes = table.pivot_table(
        index=by, columns="category", values="bytes", aggfunc="sum", fill_value=0, observed=True
    )
    blocks = table.pivot_table(
        index=by, columns="category", values="blocks", aggfunc="sum", fill_value=0, observed=True
    )
    order = np.argsort(-sizes.to_numpy().sum(axis=1), kind="stable")[:num_owners]
    sizes, blocks = sizes.iloc[order], blocks.iloc[order]
    owners = [str(owner) for owner in sizes.index]
    unit, symbol = data_unit(float(sizes.to_numpy().sum(axis=1).max(initial=0)))
    labels = [owner or _unowned(sizes.loc[[owner]].sum(), by) for owner in owners]
    bars = [
        row_bars(
            sizes[category].to_numpy() / unit,
            [
                f"{hover_name(owner or UNOWNED[by])}<br>{category}: {data_size(size)}, "
                f"{percent(100 * size / whole)} of the peak"
                + (f", in {counted(count, 'block')}" if count else "")
                for owner, size, count in zip(
                    owners, sizes[category].tolist(), blocks[category].tolist(), strict=True
                )
            ],
            name=category.capitalize(),
            marker=_MARKERS[category],
            **selecting(_SELECTS[by], owners),
        )
        for category in CATEGORIES
        if category in sizes.columns
    ]
    return rows_drawing(
        bars,
        plot_names(labels),
        axis(f"Allocated at the peak ({symbol})", rangemode="tozero"),
        barmode="stack",
        height=height_for_rows(len(owners)) + _LEGEND_HEIGHT,
        showlegend=True,
    )


def _unowned(sizes: pd.Series[int], by: OwnerColumn) -> str:
    """Name for memory without an owner: its category, if that is one that has no blocks."""
    filled = [category for category, size in sizes.items() if size]
    return f"({filled[0]})" if len(filled) == 1 and filled[0] in NO_BLOCKS else UNOWNED[by]


_LEGEND_HEIGHT: Final = 24


def _lines_of(row: Row, time_ns: Times, curve: pd.DataFrame, *, name_rank: bool) -> list[StepLine]:
    allocated, reserved = (curve[f"{name}_bytes"].to_numpy() for name in ("allocated", "reserved"))
    unit, symbol = data_unit(float(max(allocated.max(), reserved.max())))
    name = device_name(row, name_rank=name_rank).removeprefix("the ")
    lines = []
    if reserved.max() > 0:
        changed = np.flatnonzero(np.append(True, np.diff(reserved) != 0))
        label = f"{name}: allocated, and reserved (grey), in {symbol}"
        values = reserved[changed] / unit
        lines.append(StepLine(label, f"{symbol} reserved", RESERVED, time_ns[changed], values))
    label = f"{name}: allocated, in {symbol}"
    values = allocated / unit
    beside = bool(lines)
    lines.append(StepLine(label, f"{symbol} allocated", ALLOCATED, time_ns, values, beside))
    return lines
