"""Figure of the queue length: a strip for each stream."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from hta_widgets.analyses.queue_length import QueueLength
from hta_widgets.figures.drawing import Drawing
from hta_widgets.figures.step_lines import STRIPS_AT_MOST, StepLine, step_lines
from hta_widgets.figures.style import TYPE_COLORS

COLOR = TYPE_COLORS["COMPUTATION"]


def queue_length(
    result: QueueLength,
    *,
    streams: Collection[int] = (),
    window_us: Sequence[float] = (),
) -> Drawing:
    """Draw the queue length of each stream over time.

    Parameters
    ----------
    result : QueueLength
    streams : collection of int
        Ids of the streams to draw; all when it is empty. Of more than `STRIPS_AT_MOST` those with
        most operations are drawn.
    window_us : sequence of float
        Start and end (µs since the job's origin) of what is shown; all when it is empty.
    """
    table = result.streams
    first = table.groupby("rank")["count"].cumsum() - table["count"]
    table = table.assign(first=first, label=_labels(table))
    if streams:
        table = table[table["stream"].isin(list(streams))]
    drawn = table.nlargest(STRIPS_AT_MOST, "count").sort_index()
    rows = zip(drawn["label"], drawn["rank"], drawn["first"], drawn["count"], strict=True)
    return step_lines(
        [_line(result, *row) for row in rows],
        window_us=window_us,
        lines_in_all=len(table),
    )


def _line(result: QueueLength, label: str, rank: int, first: int, count: int) -> StepLine:
    changes = result.changes[rank]
    rows = slice(first, first + count)
    time_ns, length = changes["time_ns"].to_numpy(), changes["queue_length"].to_numpy()
    return StepLine(label, "operations", COLOR, time_ns[rows], length[rows])


def _labels(table: pd.DataFrame) -> list[str]:
    """Stream of each row, with rank and device where there are several."""
    ranks = len(set(table["rank"])) > 1
    devices = table.groupby("rank")["device"].transform("nunique") > 1
    rows = zip(table["rank"], table["device"], table["stream"], devices, strict=True)
    return [
        (f"Rank {rank} · " if ranks else "")
        + (f"GPU {device} · " if several else "")
        + f"Stream {stream}"
        for rank, device, stream, several in rows
    ]
