"""Figure of the difference between two traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.style import NEUTRAL, axis, height_for_rows, row_bars, rows_drawing
from hta_widgets.figures.base.text import hover_name, plot_names, plot_text

_COLORS: Final = ("#0072B2", "#D55E00", NEUTRAL)
_TITLES: Final = {"counts": "Count", "total_duration": "Total duration (µs)"}


def trace_diff(table: pd.DataFrame, columns: Sequence[str], what: str) -> Drawing:
    """Draw grouped bars of both traces and their difference.

    Parameters
    ----------
    table : DataFrame
        Rows of `TraceDiff.compare_traces`.
    columns : sequence of str
        Columns of the control trace, the test trace, and their difference.
    what : {"counts", "total_duration"}
    """
    names = [str(name) for name in table.index]
    labels = [*(column.removesuffix(f"_{what}") for column in columns[:-1]), "Difference"]
    bars = [
        row_bars(
            table[column].to_numpy(),
            [
                f"{hover_name(name)}<br>{plot_text(label)}: {value:,}"
                for name, value in zip(names, table[column].tolist(), strict=True)
            ],
            name=plot_text(label),
            marker={"color": color},
        )
        for column, label, color in zip(columns, labels, _COLORS, strict=True)
    ]
    height = height_for_rows(2 * len(names))
    return rows_drawing(
        bars, plot_names(names), axis(_TITLES[what]), barmode="group", height=height
    )
