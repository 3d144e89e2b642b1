"""The steps of one rank as a diagnosis sees them: what its GPU did, and why it did nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.diagnosis.host_gaps import GAPS, HostGaps, host_gaps
from hta_widgets.analyses.diagnosis.host_time import HOST_COLUMNS, host_time
from hta_widgets.analyses.diagnosis.kernel_names import NAME_COLUMNS
from hta_widgets.analyses.shared.attribution.window import Window, window_of
from hta_widgets.analyses.shared.collectives.partition import PARTS, Partition, RankSplit
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SHOWN_COLUMNS: Final = ("start_ns", "end_ns", "period", "cpu", "host", "kernels", *PARTS, *GAPS)
"""What a table of steps shows."""

STEP_COLUMNS: Final = (
    "step",
    *SHOWN_COLUMNS,
    *HOST_COLUMNS[1:],
    *NAME_COLUMNS,
    "starting",
    "untold",
    "loading_code",
    "host_copies",
)
"""What rules work on."""

Columns = dict[str, NDArray[np.int64]]


class DeviceSteps(NamedTuple):
    """The steps of the device with most work of a rank.

    Attributes
    ----------
    device : int
    window : Window
    edges : ndarray of int64
        Bounds of the steps, from `Window.step_edges`.
    work : GpuWork
        All that is recorded on the device, also of steps that are not analysed.
    busy : Partition
    gaps : HostGaps
        Between the first edge and the last.
    """

    device: int
    window: Window
    edges: Times
    work: GpuWork
    busy: Partition
    gaps: HostGaps


def main_device(rank: Rank) -> int | None:
    """Device with most GPU work of a rank; None without any."""
    if not len(rank.gpu_work):
        return None
    counts = {device: len(work) for device, work in rank.gpu_work.by_device().items()}
    return max(counts, key=lambda device: counts[device])


def device_steps(rank: Rank, split: RankSplit) -> DeviceSteps | None:
    """The steps of a rank's device; None without GPU work."""
    device = main_device(rank)
    if device is None:
        return None
    window = window_of(rank)
    work = rank.all_work(device)
    edges = window.step_edges(rank, device)
    return DeviceSteps(
        device=device,
        window=window,
        edges=edges,
        work=work,
        busy=Partition.of(work, split),
        gaps=host_gaps(rank, device, int(edges[0]), int(edges[-1])),
    )


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
        "untold": steps.gaps.untold_in_bins(edges),
        "loading_code": steps.gaps.loading_code_in_bins(edges),
        **dict(zip(PARTS, steps.busy.in_bins(edges), strict=True)),
        **dict(zip(GAPS, steps.gaps.in_bins(edges), strict=True)),
    }


def _kernels(rank: Rank, steps: DeviceSteps) -> NDArray[np.int64]:
    """Kernels that each step launches, as in `step_table`: not what no recorded call launches."""
    work, window = rank.gpu_work.by_device()[steps.device], steps.window
    launched = (work.launch >= 0) & window.is_of_a_step(rank, work)
    kernels = launched & (rank.trace.events.kind[work.rows] == Kind.KERNEL)
    step = window.step_of(rank, work)[kernels]
    return np.bincount(step, minlength=steps.window.steps.size)
