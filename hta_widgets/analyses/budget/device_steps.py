"""The steps of one rank: what its GPU did in each, and why it did nothing."""

from __future__ import annotations

from typing import NamedTuple

from hta_widgets.analyses.budget.host_gaps import HostGaps, host_gaps
from hta_widgets.analyses.communication.partition import Partition, RankSplit
from hta_widgets.analyses.time.window import Window, window_of
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank


class DeviceSteps(NamedTuple):
    """The steps of the device with most work of a rank."""

    device: int
    window: Window
    edges: Times
    """Bounds of the steps, from `Window.step_edges`."""
    work: GpuWork
    """All that is recorded on the device, also of steps that are not analysed."""
    busy: Partition
    gaps: HostGaps
    """Between the first edge and the last."""


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
        gaps=rank.remember(host_gaps, device, int(edges[0]), int(edges[-1])),
    )
