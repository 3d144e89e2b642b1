"""Figure of the kernel sequences: how often each occurs, or how long it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from hta_widgets.analyses.kernel_sequences import KernelSequences
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.style import NEUTRAL, axis, count_axis, row_bars, rows_drawing
from hta_widgets.figures.base.text import plot_text
from hta_widgets.names.readable import sequence_words
from hta_widgets.names.shorten import cut_in_the_middle, distinct_names
from hta_widgets.quantities import counted, duration, time_unit

AXIS_WIDTH = 72
WORDS_AT_MOST = 4
TABLE_WIDTH = 2_000
_HOVER_KERNELS = 12
_HOVER_WIDTH = 100


def kernel_sequences(result: KernelSequences, *, top_k: int = 5, as_time: bool = False) -> Drawing:
    """Draw the most frequent sequences by their number of occurrences, or by GPU time."""
    table = result.patterns.head(top_k)
    unit = time_unit(float(table["gpu_time_ns"].max()) if len(table) else 0)
    values = table["gpu_time_ns"] / unit.ns if as_time else table["count"]
    sequences = result.sequences[:top_k]
    bar = row_bars(
        values.to_numpy(),
        [
            _hover(names, count, gpu_ns, cpu_ns)
            for names, count, gpu_ns, cpu_ns in zip(
                sequences, table["count"], table["gpu_time_ns"], table["cpu_time_ns"], strict=True
            )
        ],
        marker={"color": NEUTRAL},
    )
    return rows_drawing(
        [bar],
        _on_axis(sequences),
        axis(f"GPU time ({unit.symbol})", rangemode="tozero")
        if as_time
        else count_axis("Occurrences", values.max()),
    )


def readable_patterns(result: KernelSequences) -> pd.DataFrame:
    """Patterns as a readable table.

    ``sequence`` (short names of the kernels), the columns of ``result.patterns`` but the pattern,
    and last the ``pattern``, cut in the middle when longer than 2,000 characters.
    """
    columns = dict(result.patterns.items())
    patterns = [cut_in_the_middle(each, TABLE_WIDTH) for each in columns.pop("pattern")]
    sequences = [sequence_words(names) for names in result.sequences]
    return pd.DataFrame({"sequence": sequences, **columns, "pattern": patterns})


def _on_axis(sequences: Sequence[tuple[str, ...]]) -> list[str]:
    """Sequences in words; where two would look alike, their differences are shown instead."""
    words = [
        cut_in_the_middle(sequence_words(names, WORDS_AT_MOST), AXIS_WIDTH) for names in sequences
    ]
    whole = [" → ".join(names) for names in sequences]
    times = Counter(words)
    alike = [place for place, text in enumerate(words) if times[text] > 1]
    apart = distinct_names([whole[place] for place in alike], AXIS_WIDTH)
    for place, text in zip(alike, apart, strict=True):
        words[place] = text
    shown = words if len(set(words)) == len(words) else distinct_names(whole, AXIS_WIDTH)
    return [plot_text(text) for text in shown]


def _hover(names: tuple[str, ...], count: int, gpu_ns: int, cpu_ns: int) -> str:
    shown = [plot_text(cut_in_the_middle(name, _HOVER_WIDTH)) for name in names[:_HOVER_KERNELS]]
    if len(names) > _HOVER_KERNELS:
        shown.append(f"… {len(names) - _HOVER_KERNELS:,} more")
    occurrences = counted(count, "occurrence")
    numbers = f"{occurrences}, {duration(gpu_ns)} GPU time, {duration(cpu_ns)} CPU time"
    return "<br>".join([numbers, *shown])
