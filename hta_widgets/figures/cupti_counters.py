"""Figure of the performance counters: one counter, by operator."""

from __future__ import annotations

from hta_widgets.analyses.cupti_counters import TOP, CuptiCounters
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.style import NEUTRAL, axis, row_bars, rows_drawing
from hta_widgets.figures.base.text import plot_names, plot_text
from hta_widgets.quantities import counted, number

BARS_AT_MOST = 30
WITHOUT = "(no operator)"


def counter_by_operator(
    result: CuptiCounters, counter: str, *, level: str = TOP, statistic: str = "sum"
) -> Drawing:
    """Draw the sum or the mean of one counter by operator, largest first.

    The operator is the outermost (``top_level_op``) or the innermost (``bottom_level_op``) one
    around each launch.
    """
    every = result.operators
    table = every[(every["counter"] == counter) & (every["level"] == level)]
    table = table.sort_values(statistic, ascending=False, kind="stable").head(BARS_AT_MOST)
    names = [WITHOUT if name is None else str(name) for name in table["operator"]]
    bar = row_bars(
        table[statistic].to_numpy(dtype=float),
        [
            f"{plot_text(name)}<br>"
            f"sum {number(total)}, mean {number(mean)} over {counted(kernels, 'kernel')}"
            for name, total, mean, kernels in zip(
                names, table["sum"], table["mean"], table["kernels"], strict=True
            )
        ],
        marker={"color": NEUTRAL},
    )
    return rows_drawing(
        [bar], plot_names(names), axis(f"{plot_text(counter)}, {statistic}", rangemode="tozero")
    )
