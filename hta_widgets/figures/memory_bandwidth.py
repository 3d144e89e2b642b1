"""Figure of the memory bandwidth: a strip for each kind of transfer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hta_widgets.analyses.memory_bandwidth import MemoryBandwidth
from hta_widgets.figures.drawing import Drawing
from hta_widgets.figures.step_lines import (
    StepLine,
    StepLines,
    first_changes,
    lines_to_draw,
    step_lines,
)
from hta_widgets.figures.style import TYPE_COLORS

COLOR = TYPE_COLORS["MEMORY"]


def bandwidth_lines(result: MemoryBandwidth, name: str = "") -> StepLines:
    """Make the lines of `memory_bandwidth`, which no window changes."""
    table = result.transfers
    names, rank = table["name"].tolist(), table["rank"].to_numpy()
    changes = 2 * table["operations"].to_numpy()
    first = first_changes(rank, changes)
    wanted = np.array([name in {"", each} for each in names], dtype=bool)
    several_ranks = np.unique(rank[wanted]).size > 1
    places = lines_to_draw(changes, np.flatnonzero(wanted))
    return StepLines(
        [
            _line(result, names[at], int(rank[at]), first[at], changes[at], with_rank=several_ranks)
            for at in places.tolist()
        ],
        in_all=int(wanted.sum()),
    )


def memory_bandwidth(
    result: MemoryBandwidth, *, name: str = "", window_us: Sequence[float] = ()
) -> Drawing:
    """Draw the bandwidth of each kind of transfer over time, in GB/s.

    Parameters
    ----------
    result : MemoryBandwidth
    name : str
        Kind of transfer to draw, such as ``Memcpy HtoD``; all when it is empty. Of more than
        `STRIPS_AT_MOST` lines those with most transfers are drawn.
    window_us : sequence of float
        Start and end (µs since the job's origin) of what is shown; all when it is empty.
    """
    return step_lines(bandwidth_lines(result, name), window_us=window_us)


def _line(
    result: MemoryBandwidth, name: str, rank: int, first: int, count: int, *, with_rank: bool
) -> StepLine:
    changes = result.changes[rank]
    rows = slice(first, first + count)
    time_ns, value = changes["time_ns"].to_numpy(), changes["bandwidth_gb_per_s"].to_numpy()
    label = f"Rank {rank} · {name} (GB/s)" if with_rank else f"{name} (GB/s)"
    return StepLine(label, "GB/s", COLOR, time_ns[rows], value[rows])
