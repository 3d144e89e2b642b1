"""Figure of the memory bandwidth: a strip for each kind of transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd

from hta_widgets.analyses.memory_bandwidth import MemoryBandwidth
from hta_widgets.figures.base.step_lines import StepLine, StepLines, lines_of_ranks, lines_with_most
from hta_widgets.figures.base.style import TYPE_COLORS

COLOR = TYPE_COLORS["MEMORY"]


def bandwidth_lines(
    result: MemoryBandwidth, shift_ns: Mapping[int, int] = MappingProxyType({})
) -> list[StepLine]:
    """Make the line of each kind of transfer, whether it is shown or not."""
    table = result.transfers
    return lines_of_ranks(
        table["rank"].to_numpy(),
        2 * table["operations"].to_numpy(),
        _labels(table),
        result.changes.columns,
        value="bandwidth_gb_per_s",
        unit="GB/s",
        color=COLOR,
        shift_ns=shift_ns,
    )


def lines_of_transfer(lines: Sequence[StepLine], result: MemoryBandwidth, name: str) -> StepLines:
    """Choose which `bandwidth_lines` to draw: those of one kind of transfer, or all."""
    wanted = [name in {"", each} for each in result.transfers["name"].tolist()]
    busy_ns = result.transfers["busy_ns"].to_numpy()
    return lines_with_most(lines, np.array(wanted, dtype=bool), busy_ns, "time")


def _labels(table: pd.DataFrame) -> list[str]:
    """Kind of transfer of each row, with the rank if there are several."""
    rows = list(zip(table["rank"].tolist(), table["name"].tolist(), strict=True))
    several = len({rank for rank, _ in rows}) > 1
    return [(f"Rank {rank} · " if several else "") + f"{name} (GB/s)" for rank, name in rows]
