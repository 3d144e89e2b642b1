"""How the selected kernel is launched, in facts."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.panels.bands.messages import Fact
from hta_widgets.quantities import counted, data_size, number, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.details import DetailGroup

MOST_EVENTS: Final = 300_000
"""Of a rank whose file is read for this, which then takes less than a second."""

_NOT_RECORDED: Final = Fact(label="grid", text="not recorded")
_NOT_READ: Final = Fact(label="grid", text="with “Launch facts” in the kernel breakdown")


def launch_of(job: Job, kernel: str, events: pd.DataFrame) -> list[Fact]:
    """Grid and block with most of the time, on the rank with most of it, and what follows."""
    if not kernel or events.empty:
        return []
    by_rank = events.groupby("rank")["duration_ns"].sum()
    number = int(by_rank.index.to_numpy()[by_rank.to_numpy().argmax()])
    rank = job.rank(number)
    if len(rank.trace.events) > MOST_EVENTS and not rank.has_read(DetailGroup.LAUNCH_CONFIGURATION):
        return [_NOT_READ]
    found = launch_facts(job, [number], by="configuration", kernel=kernel)
    if found.kernels.empty:
        return []
    rows = records(found.kernels)
    most = max(rows, key=lambda row: row["gpu_ns"])
    sizes = {(row["grid"], row["block"]) for row in rows}
    return _facts(most, len(sizes) - 1) if most["grid"] else [_NOT_RECORDED]


def _facts(row: Row, others: int) -> list[Fact]:
    more = f" and {counted(others, 'other size')}" if others else ""
    sizes = f"{row['grid']} blocks of {row['block']} threads{more}"
    found = [Fact(label="grid", text=sizes)]
    if row["registers"] > 0:
        found.append(Fact(label="registers of a thread", text=number(row["registers"])))
    if row["shared_bytes"] > 0:
        text = data_size(row["shared_bytes"])
        found.append(Fact(label="shared memory of a block", text=text))
    if row["occupancy_percent"] >= 0:
        said = " (estimated)" if row["occupancy_source"] == "estimated" else ""
        found.append(Fact(label="occupancy", text=f"{percent(row['occupancy_percent'])}{said}"))
    if 0 < row["blocks"] < row["sms"]:
        found.append(Fact(label="fills", text=f"{row['blocks']:,} of {row['sms']:,} SMs"))
    elif row["waves"] >= 0:
        found.append(Fact(label="waves", text=number(row["waves"])))
    if row["tensor_core"]:
        found.append(Fact(label="tensor cores", text=row["tensor_core"]))
    return found
