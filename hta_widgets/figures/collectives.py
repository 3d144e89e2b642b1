"""Figures of the collectives: their time by kind, their bandwidths, and which ranks are late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.collectives import Collectives
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting, trace
from hta_widgets.figures.base.rank_bars import bars_of_ranks
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    NEUTRAL,
    axis,
    class_marker,
    decades_axis,
    drawing,
    height_for_rows,
    legend_entry,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.quantities import counted, data_size, duration, number, percent, time_unit

MOST_POINTS: Final = 500
"""With more kernels, overlapping marks are merged into one that says how many it stands for:
plotly takes 0.2 s for the 1,536 marks of 256 ranks."""

_CELLS_PER_DECADE: Final = 50
"""A cell is as large as a mark, 8 pixels."""

_LEGEND_HEIGHT: Final = 24
_LOW: Final = 220  # height of charts placed below another
_PARTS: Final = (
    ("transfer", "Transfer"),
    ("waiting", "Waiting for ranks"),
    ("communication", "Transfer or waiting"),
)
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "triangle-down")
_COLORS: Final = ("#0072B2", CLASS_COLORS["transfer"], "#009E73", "#7A5195", NEUTRAL)


def time_by_kind(result: Collectives, *, num_groups: int = 10) -> Drawing:
    """Draw the time of the collectives by kind, size and process group, the longest first.

    Each bar is split into transfer, waiting, and what could be either.
    """
    table = result.groups.head(num_groups)
    waiting = table["wait_ns"].fillna(0) + table["unexplained_wait_ns"].fillna(0)
    parts = {"waiting": waiting, "transfer": table["transfer_ns"].fillna(0)}
    parts["communication"] = table["total_ns"] - parts["waiting"] - parts["transfer"]
    unit = time_unit(float(table["total_ns"].max()) if len(table) else 0)
    rows, drawn = records(table), [each for each in _PARTS if (parts[each[0]] > 0).any()]
    hover = [_group_hover(row) for row in rows]
    bars = [
        row_bars(
            parts[name].to_numpy(dtype=float) / unit.ns,
            [
                f"{text}<br>{label}: {duration(ns)}"
                for text, ns in zip(hover, parts[name].tolist(), strict=True)
            ],
            name=label,
            marker=class_marker(name),
        )
        for name, label in drawn
    ]
    height = height_for_rows(len(rows))
    legend = [legend_entry(label, name) for name, label in drawn]
    return rows_drawing(
        bars,
        plot_names(_labels(rows)),
        axis(f"Kernel time ({unit.symbol})", rangemode="tozero"),
        barmode="stack",
        height=height + _LEGEND_HEIGHT,
        meta={"legend": legend, "height": height},
        showlegend=True,
    )


def bandwidth_by_size(result: Collectives) -> Drawing:
    """Draw the bus bandwidth of each kernel over its size, both logarithmic.

    Where waiting is unknown, the mark is open: its bandwidth is computed from the duration, which
    includes waiting, so the link is faster than shown. Where there is no bus bandwidth, the
    algorithm bandwidth is drawn.
    """
    kernels = result.kernels
    drawn = kernels["busbw_gb_per_s"].fillna(kernels["algbw_gb_per_s"])
    table = _marks(kernels.assign(drawn_gb_per_s=drawn)[drawn > 0])
    kinds = [*dict.fromkeys(table["collective"].astype(object).tolist())]
    points = [
        _points(table[table["collective"] == kind], name, kinds.index(kind), is_open=is_open)
        for kind, name in zip(kinds, plot_names(kinds), strict=True)
        for is_open in (False, True)
    ]
    return drawing(
        [each for each in points if len(each["x"])],
        height=_LOW,
        showlegend=True,
        xaxis=decades_axis("Size", table["bytes"], data_size),
        yaxis=decades_axis("Bus bandwidth (GB/s)", table["drawn_gb_per_s"], number),
    )


def _marks(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels, or one for each cell of the chart, with the number of ``others`` in the cell."""
    if len(kernels) <= MOST_POINTS:
        return kernels.assign(others=0)
    place = np.log10(kernels[["bytes", "drawn_gb_per_s"]].to_numpy(np.float64))
    cells = np.rint(place * _CELLS_PER_DECADE).T
    groups = kernels.groupby(["collective", "bandwidth_of", *cells], sort=False)
    others = groups["bytes"].transform("size") - 1
    return kernels.assign(others=others)[groups.cumcount() == 0]


def _points(table: pd.DataFrame, name: str, place: int, *, is_open: bool) -> PlotlyTrace:
    table = table[(table["bandwidth_of"] == "duration") == is_open]
    symbol, color = _SYMBOLS[place % len(_SYMBOLS)], _COLORS[place % len(_COLORS)]
    return trace(
        "scatter",
        x=table["bytes"].to_numpy(dtype=float),
        y=table["drawn_gb_per_s"].to_numpy(dtype=float),
        mode="markers",
        name=f"{name} (waiting included)" if is_open else name,
        marker={"color": color, "size": 8, "symbol": f"{symbol}-open" if is_open else symbol},
        hovertext=[_kernel_hover(row) for row in records(table)],
        **selecting("ranks", table["rank"].tolist()),
    )


def late_ranks(result: Collectives, *, selected: Collection[int] = ()) -> Drawing:
    """Draw how late each rank was in the collectives to which it came last."""
    table = lateness_by_rank(result)
    unit = time_unit(float(table["lateness_ns"].max()) if len(table) else 0)
    hover = [
        f"Rank {row['rank']} arrives last in {row['count']:,} of "
        f"{counted(len(result.matched), 'collective')}<br>"
        f"{duration(row['lateness_ns'])} after the median arrival"
        for row in records(table)
    ]
    bars = bars_of_ranks(
        table,
        table["lateness_ns"].to_numpy(dtype=float) / unit.ns,
        hover,
        color=CLASS_COLORS["waiting"],
        yaxis=axis(f"Lateness ({unit.symbol})", rangemode="tozero"),
        selected=selected,
    )
    return replace(bars, layout={**bars.layout, "height": _LOW})


def lateness_by_rank(result: Collectives) -> pd.DataFrame:
    """One row per rank that takes part: ``rank``, ``device`` (-1), ``count``, ``lateness_ns``."""
    ranks = sorted({*result.kernels["rank"].tolist(), *result.matched["late_rank"].dropna()})
    late = result.matched.groupby("late_rank")["lateness_ns"].agg(["size", "sum"])
    late = late.reindex(ranks, fill_value=0)
    return pd.DataFrame(
        {
            "rank": np.array(ranks, dtype=np.int64),
            "device": -1,
            "count": late["size"].to_numpy(dtype=np.int64),
            "lateness_ns": late["sum"].to_numpy(dtype=np.int64),
        }
    )


def _known(value: Any) -> bool:  # noqa: ANN401
    return not pd.isna(value)


def _labels(rows: Sequence[Row]) -> list[str]:
    """Labels of rows shown together: sizes that would look alike are written in bytes."""
    labels = [_label(row) for row in rows]
    count = Counter(labels)
    return [
        label if count[label] == 1 else _label(row, lambda size: f"{size:,} B")
        for label, row in zip(labels, rows, strict=True)
    ]


def _label(row: Row, write: Callable[[int], str] = data_size) -> str:
    """What the collectives of a row have in common, in a few words."""
    size = write(row["bytes"]) if _known(row["bytes"]) else ""
    whose = next((row[key] for key in ("group", "group_ranks") if _known(row[key])), "")
    parts = (row["collective"], size, whose)
    return ", ".join(str(each) for each in parts if each)


def _group_hover(row: Row) -> str:
    lines = [hover_name(_label(row))]
    typed = [str(row["dtype"])] if _known(row["dtype"]) else []
    ranks = [f"ranks {row['group_ranks']}"] if _known(row["group_ranks"]) else []
    lines += [hover_name(", ".join([*typed, *ranks]))] if typed or ranks else []
    lines.append(
        f"{counted(row['count'], 'kernel')}, {duration(row['total_ns'])} "
        f"({percent(row['share_percent'])} of the communication), median "
        f"{duration(row['median_ns'])}"
    )
    lines.append(f"Not hidden: {duration(row['exposed_ns'])}")
    if _known(row["busbw_gb_per_s"]):
        lines.append(f"Bus bandwidth, median: {_speed(row['busbw_gb_per_s'], row['bandwidth_of'])}")
    elif _known(row["algbw_gb_per_s"]):
        lines.append(f"Bandwidth, median: {_speed(row['algbw_gb_per_s'], row['bandwidth_of'])}")
    return "<br>".join(lines)


def _speed(gb_per_s: float, of: str) -> str:
    mark = "" if of == "transfer" else " (from duration, waiting included)"
    return f"{number(gb_per_s)} GB/s{mark}"


def _kernel_hover(row: Row) -> str:
    speed = _speed(row["drawn_gb_per_s"], row["bandwidth_of"])
    lines = [
        f"{hover_name(row['collective'])}, rank {row['rank']}",
        f"{data_size(row['bytes'])} in {duration(row['duration_ns'])}: {speed}",
    ]
    if _known(row["wait_ns"]):
        waiting_ns = row["wait_ns"] + row["unexplained_wait_ns"]
        lines.append(f"Waiting {duration(waiting_ns)}, transfer {duration(row['transfer_ns'])}")
    lines.append(f"Not hidden: {duration(row['exposed_ns'])}")
    if _known(row["module"]):
        lines.append(hover_name(row["module"]))
    if row["others"]:
        lines.append(
            f"and {counted(row['others'], 'kernel')} of nearly the same size and bandwidth"
        )
    return "<br>".join(lines)
