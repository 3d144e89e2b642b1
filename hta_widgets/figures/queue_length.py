"""Figure of the queue length: a strip for each stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd

from hta_widgets.analyses.queue_length import QueueLength
from hta_widgets.figures.base.step_lines import (
    StepLine,
    StepLines,
    lines_of_ranks,
    lines_with_most_changes,
)
from hta_widgets.figures.base.style import TYPE_COLORS

COLOR = TYPE_COLORS["COMPUTATION"]


def queue_lines(
    result: QueueLength, shift_ns: Mapping[int, int] = MappingProxyType({})
) -> list[StepLine]:
    """Make the line of each stream, whether it is shown or not."""
    table = result.streams
    return lines_of_ranks(
        table["rank"].to_numpy(),
        table["count"].to_numpy(),
        _labels(table),
        result.changes.columns,
        value="queue_length",
        unit="operations",
        color=COLOR,
        shift_ns=shift_ns,
    )


def lines_of_streams(
    lines: Sequence[StepLine], result: QueueLength, streams: Collection[int]
) -> StepLines:
    """Choose which `queue_lines` to draw: those of some streams, or all."""
    wanted = [not streams or each in streams for each in result.streams["stream"].tolist()]
    return lines_with_most_changes(lines, np.array(wanted, dtype=bool))


def _labels(table: pd.DataFrame) -> list[str]:
    """Stream of each row, with rank and device if there are several."""
    rows = list(zip(*(table[key].tolist() for key in ("rank", "device", "stream")), strict=True))
    devices: dict[int, set[int]] = {}
    for rank, device, _ in rows:
        devices.setdefault(rank, set()).add(device)
    return [
        (f"Rank {rank} · " if len(devices) > 1 else "")
        + (f"GPU {device} · " if len(devices[rank]) > 1 else "")
        + f"Stream {stream}"
        for rank, device, stream in rows
    ]
