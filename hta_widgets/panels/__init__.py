"""One widget for each analysis: its parameters as traits, its result and its figures."""

from __future__ import annotations

from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.collectives import CollectivesPanel
from hta_widgets.panels.compare import ComparePanel
from hta_widgets.panels.cupti_counters import CuptiCountersPanel
from hta_widgets.panels.dashboard import Dashboard
from hta_widgets.panels.diagnosis import DiagnosisPanel
from hta_widgets.panels.duration_tails import DurationTailsPanel
from hta_widgets.panels.flame import FlamePanel
from hta_widgets.panels.gpu_annotations import AnnotationsPanel
from hta_widgets.panels.idle_owners import IdleOwnersPanel
from hta_widgets.panels.idle_time import IdleTimePanel
from hta_widgets.panels.kernel_breakdown import KernelBreakdownPanel
from hta_widgets.panels.kernel_sequences import KernelSequencesPanel
from hta_widgets.panels.launch_overlap import LaunchOverlapPanel
from hta_widgets.panels.launch_stats import LaunchStatsPanel
from hta_widgets.panels.memory_bandwidth import MemoryBandwidthPanel
from hta_widgets.panels.memory_use import MemoryPanel
from hta_widgets.panels.modules import ModulesPanel
from hta_widgets.panels.operators import OperatorsPanel
from hta_widgets.panels.overlap import OverlapPanel
from hta_widgets.panels.queue_length import QueueLengthPanel
from hta_widgets.panels.rank_overlap import RankOverlapPanel
from hta_widgets.panels.roofline import RooflinePanel
from hta_widgets.panels.temporal_breakdown import TemporalBreakdownPanel
from hta_widgets.panels.timeline import TimelinePanel

__all__ = [
    "AnnotationsPanel",
    "CollectivesPanel",
    "ComparePanel",
    "CuptiCountersPanel",
    "Dashboard",
    "DiagnosisPanel",
    "DurationTailsPanel",
    "FlamePanel",
    "IdleOwnersPanel",
    "IdleTimePanel",
    "KernelBreakdownPanel",
    "KernelSequencesPanel",
    "LaunchOverlapPanel",
    "LaunchStatsPanel",
    "MemoryBandwidthPanel",
    "MemoryPanel",
    "ModulesPanel",
    "OperatorsPanel",
    "OverlapPanel",
    "Panel",
    "QueueLengthPanel",
    "RankOverlapPanel",
    "RooflinePanel",
    "Selection",
    "TemporalBreakdownPanel",
    "TimelinePanel",
]


def __dir__() -> list[str]:
    return sorted(__all__)
