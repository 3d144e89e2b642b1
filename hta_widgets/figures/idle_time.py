"""Figures of the idle time: stacked bars of its parts, per stream or per GPU."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_time import IdleTime
from hta_widgets.analyses.idle_time.gaps import IDLE_SPLIT
from hta_widgets.analyses.time.rows import Row
from hta_widgets.arrays import Float64Array
from hta_widgets.figures.base.drawing import Drawing, selecting
from hta_widgets.figures.base.rank_bars import BarPart, stacked_time_bars
from hta_widgets.figures.base.style import CLASS_COLORS, axis, row_bars, rows_drawing
from hta_widgets.quantities import duration, percent, time_unit

STREAMS_AT_MOST = 24
"""Maximum streams with a bar of their own; the others, the least idle, share one bar."""

_LATE, _OTHER = CLASS_COLORS["late_launching"], CLASS_COLORS["other_idle"]

_SERIES = (
    BarPart.of_class("host", "CPU-bound", "late_launching"),
    BarPart("launch_call", "CPU-bound: launch call and latency", _LATE, pattern="x"),
    BarPart.of_class("between_kernels", "Kernel-to-kernel gap", "other_idle"),
    BarPart("inside_graph", "Gap inside a graph", _OTHER, True, "."),
    BarPart("dependency", "Launched, not yet started", _OTHER, pattern="/"),
    BarPart("launch_not_recorded", "Launch not recorded", _OTHER, True),
)
PART_NAMES: Final = {each.column: each.name for each in _SERIES}
"""Name of each part of the idle time."""

_WHOLE = "idle"
_KEYS = ["rank", "device", "stream"]


def idle_time_of_devices(
    result: IdleTime, *, selected: Collection[int] = (), as_percent: bool = True, steps: int = 0
) -> Drawing:
    """Draw the parts of the time in which no stream of a GPU is busy; `steps` divides it."""
    return stacked_time_bars(
        pd.DataFrame(_by_part(result.device_split, ["rank", "device"])),
        _SERIES,
        whole=_WHOLE,
        whole_name="idle time",
        selected=selected,
        as_percent=as_percent,
        steps=steps,
    )


def idle_time_of_streams(result: IdleTime, *, as_percent: bool = True) -> Drawing:
    """Draw the parts of each stream's idle time, one horizontal bar per stream.

    If there are more than `STREAMS_AT_MOST` streams, the least idle ones share the last bar.
    """
    rows = _most_idle(_by_part(result.stream_split, _KEYS))
    whole_ns = _column(rows, _WHOLE)
    unit = time_unit(whole_ns.max(initial=0))
    scale = np.where(whole_ns > 0, whole_ns, np.nan) / 100 if as_percent else unit.ns
    labels = _labels(rows)
    bars = [
        row_bars(
            _column(rows, each.column) / scale,
            [_hover(row, label, each) for row, label in zip(rows, labels, strict=True)],
            name=each.name,
            marker=each.marker,
            **selecting("ranks", [None if row["folded"] else row["rank"] for row in rows]),
        )
        for each in _SERIES
        if not each.only_where_any or _column(rows, each.column).any()
    ]
    title = "Share of idle time (%)" if as_percent else f"Idle time ({unit.symbol})"
    limits = {"range": [0, 100]} if as_percent else {"rangemode": "tozero"}
    return rows_drawing(bars, labels, axis(title, **limits), barmode="stack")


def _by_part(table: pd.DataFrame, keys: list[str]) -> dict[str, NDArray[Any]]:
    """Columns with a value per stream or device: time (ns) and intervals by part, and the sum.

    `table` has one row for each part; the rows of a stream or device are contiguous.
    """
    parts = len(IDLE_SPLIT)
    columns = {key: table[key].to_numpy()[::parts] for key in keys}
    times = table["idle_time_ns"].to_numpy().reshape(-1, parts)
    counts = table["count"].to_numpy().reshape(-1, parts)
    for place, part in enumerate(IDLE_SPLIT):
        columns[part] = times[:, place]
        columns[f"{part} intervals"] = counts[:, place]
    columns[_WHOLE] = times.sum(axis=1)
    return columns


def _most_idle(columns: dict[str, NDArray[Any]]) -> list[Row]:
    """Fold the least idle streams, if there are many, into a last row; ``folded`` counts them."""
    by_time = np.argsort(-columns[_WHOLE], kind="stable")
    own = by_time.size if by_time.size <= STREAMS_AT_MOST else STREAMS_AT_MOST - 1
    kept, rest = np.sort(by_time[:own]), by_time[own:]
    values = zip(*(column[kept].tolist() for column in columns.values()), strict=True)
    rows = [{**dict(zip(columns, row, strict=True)), "folded": 0} for row in values]
    if rest.size:
        sums = {name: column[rest].sum().item() for name, column in columns.items()}
        rows.append(sums | dict.fromkeys(_KEYS, -1) | {"folded": rest.size})
    return rows


def _column(rows: list[Row], name: str) -> Float64Array:
    return np.array([row[name] for row in rows], dtype=float)


def _labels(rows: list[Row]) -> list[str]:
    own = [row for row in rows if not row["folded"]]
    several_ranks = len({row["rank"] for row in own}) > 1
    several_devices = len({(row["rank"], row["device"]) for row in own}) > len(
        {row["rank"] for row in own}
    )

    def label(row: Row) -> str:
        if row["folded"]:
            return f"{row['folded']:,} other streams"
        parts = [f"Rank {row['rank']}"] if several_ranks else []
        parts += [f"GPU {row['device']}"] if several_devices else []
        return " · ".join([*parts, f"stream {row['stream']}"])

    return [label(row) for row in rows]


def _hover(row: Row, label: str, part: BarPart) -> str:
    where = label if row["folded"] or label.startswith("Rank") else f"Rank {row['rank']} · {label}"
    whole, part_ns = row[_WHOLE], row[part.column]
    if not whole:
        return f"{where}: never idle"
    return (
        f"{where}<br>{part.name}: {duration(part_ns)}, {percent(100 * part_ns / whole)} of "
        f"{duration(whole)} idle time<br>Idle intervals: {row[f'{part.column} intervals']:,}"
    )
