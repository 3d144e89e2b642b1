"""Figure of the memory bandwidth: a strip for each kind of transfer."""

from __future__ import annotations

from collections.abc import Sequence

from hta_widgets.analyses.memory_bandwidth import MemoryBandwidth
from hta_widgets.figures.drawing import Drawing
from hta_widgets.figures.step_lines import STRIPS_AT_MOST, StepLine, step_lines
from hta_widgets.figures.style import TYPE_COLORS

COLOR = TYPE_COLORS["MEMORY"]


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
    table = result.transfers
    count = 2 * table["operations"]
    first = count.groupby(table["rank"]).cumsum() - count
    table = table.assign(first=first, changes=count)
    table = table[(table["name"] == name) | (name == "")]
    drawn = table.nlargest(STRIPS_AT_MOST, "changes").sort_index()
    several_ranks = len(set(table["rank"])) > 1
    rows = zip(drawn["name"], drawn["rank"], drawn["first"], drawn["changes"], strict=True)
    return step_lines(
        [_line(result, *row, with_rank=several_ranks) for row in rows],
        window_us=window_us,
        lines_in_all=len(table),
    )


def _line(
    result: MemoryBandwidth, name: str, rank: int, first: int, count: int, *, with_rank: bool
) -> StepLine:
    changes = result.changes[rank]
    rows = slice(first, first + count)
    time_ns, value = changes["time_ns"].to_numpy(), changes["bandwidth_gb_per_s"].to_numpy()
    label = f"Rank {rank} · {name} (GB/s)" if with_rank else f"{name} (GB/s)"
    return StepLine(label, "GB/s", COLOR, time_ns[rows], value[rows])
