"""What the memory of a job means, in sentences."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pandas as pd

from hta_widgets.analyses.memory_use.owners import BEFORE
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, data_size, percent

LEAST_STEPS: Final = 4
"""Fewer steps do not tell whether memory grows for ever."""

LEAST_GROWTH_BYTES: Final = 1_000_000
LEAST_GROWTH: Final = 0.001
"""Growth of every single step that is taken for a leak, in bytes and of what was allocated."""

WORTH_SAYING: Final = 0.1
"""Share of the peak from which its largest owner is named."""

NAME_WIDTH: Final = 60

UNREADABLE: Final = "The memory events of the selected ranks could not be read."
NOT_IN_FORMAT: Final = "No memory events were recorded on the selected ranks."
NOTHING: Final = (
    "No memory events were recorded on the selected ranks (profile_memory=True records them)."
)

_NOUNS: Final = {
    "temporary": "is freed by the operator that allocated it",
    "activation": "are activations",
    "gradient": "are gradients",
    "optimizer state": "is optimizer state",
}


def memory_finding(
    peak: pd.DataFrame,
    alive: pd.DataFrame,
    steps: pd.DataFrame,
    survivors: pd.DataFrame,
    without: str = NOTHING,
) -> str:
    """The highest peak of a GPU and what fills it, and memory that grows with every step.

    Parameters
    ----------
    peak, alive, steps, survivors : DataFrame
        Those of `MemoryUse`.
    without : str
        What to say if there are no events.
    """
    if peak.empty:
        return without
    on_gpu = peak[peak["device_type"] != "CPU"]
    table = on_gpu if len(on_gpu) else peak
    highest = records(table.loc[[table["bytes"].idxmax()]])[0]
    several = len(set(peak["rank"])) > 1
    said = _peak(highest, _of(alive, highest), name_rank=several)
    leak = _largest_leak(steps, survivors, name_rank=several)
    return f"{said} {leak}".rstrip()


def device_name(row: Row, *, name_rank: bool) -> str:
    """A device in words, with its rank if there are several."""
    of_rank = f" of rank {row['rank']}" if name_rank else ""
    if row["device_type"] == "CPU":
        return f"the CPU{of_rank}"
    kind = f"{row['device_type']} device" if str(row["device_type"]).startswith("type") else "GPU"
    return f"{kind} {row['device']}{of_rank}"


def _of(table: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Rows of the same device."""
    same = table["rank"] == row["rank"]
    for name in ("device_type", "device"):
        same &= table[name] == row[name]
    chosen: pd.DataFrame = table.loc[same]
    return chosen


def _peak(row: Row, alive: pd.DataFrame, *, name_rank: bool) -> str:
    size, reserved = int(row["bytes"]), int(row["reserved_bytes"])
    said = f"The memory of {device_name(row, name_rank=name_rank)} peaks at {data_size(size)}"
    if reserved > 0:
        said += f" of {data_size(reserved)} reserved"
    parts = _parts(alive, size)
    return f"{said}: {parts}." if parts else f"{said}."


def _parts(alive: pd.DataFrame, size: int) -> str:
    """What fills the peak: what was there before, the largest category, and the largest owner."""
    by_category = alive.groupby("category")["bytes"].sum()
    parts = []
    before = int(by_category.get(BEFORE, 0))
    if before >= WORTH_SAYING * size:
        parts.append(f"{percent(100 * before / size)} was allocated before the recording")
    known = by_category[[name for name in _NOUNS if name in by_category.index]]
    if len(known) and known.max() >= WORTH_SAYING * size:
        noun = _NOUNS[str(known.idxmax())]
        parts.append(f"{percent(100 * known.max() / size)} {noun}")
    by_owner = alive[alive["caller"] != ""].groupby("caller")["bytes"].sum()
    if len(by_owner) and by_owner.max() >= WORTH_SAYING * size:
        owner = short_name(str(by_owner.idxmax()), NAME_WIDTH)
        parts.append(f"{data_size(int(by_owner.max()))} was allocated by {owner}")
    return "; ".join(parts)


def _largest_leak(steps: pd.DataFrame, survivors: pd.DataFrame, *, name_rank: bool) -> str:
    """The device whose allocated memory grows most, and the owner of what stays; or nothing."""
    leaks = [
        (grown, table)
        for _, table in steps.groupby(["rank", "device_type", "device"], sort=False)
        if (grown := leaked_bytes(table["allocated_at_end_bytes"].tolist()))
    ]
    if not leaks:
        return ""
    grown, table = max(leaks, key=lambda each: each[0])
    row = records(table.iloc[:1])[0]
    each = data_size(grown / (len(table) - 1))
    said = (
        f"What is allocated on {device_name(row, name_rank=name_rank)} grows in each of "
        f"{counted(len(table), 'step')}, by {each} a step"
    )
    staying = _of(survivors, row)
    if staying.empty or not staying["caller"].iloc[0]:
        return f"{said}."
    owner = staying.iloc[0]
    of = f" in {short_name(owner['module'], NAME_WIDTH)}" if owner["module"] else ""
    name = short_name(owner["caller"], NAME_WIDTH)
    return f"{said}; most of what stays was allocated by {name}{of} ({data_size(owner['bytes'])})."


def leaked_bytes(at_ends: list[int]) -> int:
    """Growth from the end of the first step to that of the last, 0 unless each step grows."""
    if len(at_ends) < LEAST_STEPS:
        return 0
    grows = all(
        after - before > max(LEAST_GROWTH_BYTES, LEAST_GROWTH * before)
        for before, after in pairwise(at_ends)
    )
    return at_ends[-1] - at_ends[0] if grows else 0
