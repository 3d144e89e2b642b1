"""Numbers of each step of a rank: what its GPU and its host did."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.budget.host_gaps import GAPS
from hta_widgets.analyses.time.collectives.partition import PARTS
from hta_widgets.diagnosis.facts.host_time import HOST_COLUMNS, host_time
from hta_widgets.diagnosis.facts.trials import NAME_COLUMNS
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank

SHOWN_COLUMNS: Final = ("start_ns", "end_ns", "period", "cpu", "host", "kernels", *PARTS, *GAPS)
"""What a table of steps shows."""

STEP_COLUMNS: Final = (
    "step",
    *SHOWN_COLUMNS,
    *HOST_COLUMNS[1:],
    *NAME_COLUMNS,
    "starting",
    "unattributed",
    "loading_code",
    "host_copies",
)
"""What rules work on."""

Columns = dict[str, NDArray[np.int64]]


def step_facts(rank: Rank, steps: DeviceSteps | None) -> Columns:
    """Columns of `STEP_COLUMNS` but those of kernel names and copies, a row for each analysed step.

    All times are ns. ``cpu`` is the length of the step's mark; see `host_time` for what the host
    does in it. `PARTS` add up to ``period``, and `GAPS` to ``idle``.
    """
    if steps is None:
        return {name: np.zeros(0, dtype=np.int64) for name in STEP_COLUMNS}
    window, edges = steps.window, steps.edges
    return {
        "step": window.steps.astype(np.int64),
        "start_ns": edges[:-1],
        "end_ns": edges[1:],
        "period": np.diff(edges),
        "cpu": window.step_length_ns,
        **host_time(rank, window, edges),
        "kernels": _kernels(rank, steps),
        "starting": steps.gaps.starting_in_bins(edges),
        "unattributed": steps.gaps.unattributed_in_bins(edges),
        "loading_code": steps.gaps.loading_code_in_bins(edges),
        **dict(zip(PARTS, steps.busy.in_bins(edges), strict=True)),
        **dict(zip(GAPS, steps.gaps.in_bins(edges), strict=True)),
    }


def _kernels(rank: Rank, steps: DeviceSteps) -> NDArray[np.int64]:
    """Kernels that each step launches; where no launch is recorded, those that start in it."""
    work, window = rank.gpu_work.by_device()[steps.device], steps.window
    counted = rank.trace.events.kind[work.rows] == Kind.KERNEL
    if (work.launch >= 0).any():
        counted &= (work.launch >= 0) & window.is_of_a_step(rank, work)
    return np.bincount(window.step_of(rank, work)[counted], minlength=window.steps.size)
