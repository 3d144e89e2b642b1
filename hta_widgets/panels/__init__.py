"""One widget for each analysis: its parameters as traits, its result and its figures."""

from __future__ import annotations

from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.compare import ComparePanel
from hta_widgets.panels.cupti_counters import CuptiCountersPanel
from hta_widgets.panels.dashboard import Dashboard
from hta_widgets.panels.duration_tails import DurationTailsPanel
from hta_widgets.panels.idle_time import IdleTimePanel
from hta_widgets.panels.kernel_breakdown import KernelBreakdownPanel
from hta_widgets.panels.kernel_sequences import KernelSequencesPanel
from hta_widgets.panels.launch_overlap import LaunchOverlapPanel
from hta_widgets.panels.launch_stats import LaunchStatsPanel
from hta_widgets.panels.memory_bandwidth import MemoryBandwidthPanel
from hta_widgets.panels.overlap import OverlapPanel
from hta_widgets.panels.queue_length import QueueLengthPanel
from hta_widgets.panels.rank_overlap import RankOverlapPanel
from hta_widgets.panels.temporal_breakdown import TemporalBreakdownPanel

__all__ = [
    "ComparePanel",
    "CuptiCountersPanel",
    "Dashboard",
    "DurationTailsPanel",
    "IdleTimePanel",
    "KernelBreakdownPanel",
    "KernelSequencesPanel",
    "LaunchOverlapPanel",
    "LaunchStatsPanel",
    "MemoryBandwidthPanel",
    "OverlapPanel",
    "Panel",
    "QueueLengthPanel",
    "RankOverlapPanel",
    "Selection",
    "TemporalBreakdownPanel",
]


def __dir__() -> list[str]:
    return sorted(__all__)
