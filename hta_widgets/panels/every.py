"""The panel of every analysis."""

from __future__ import annotations

from typing import Any

from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.collectives import CollectivesPanel
from hta_widgets.panels.cupti_counters import CuptiCountersPanel
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

PANELS: dict[str, type[Panel[Any]]] = {
    "diagnosis": DiagnosisPanel,
    "timeline": TimelinePanel,
    "temporal_breakdown": TemporalBreakdownPanel,
    "overlap": OverlapPanel,
    "rank_overlap": RankOverlapPanel,
    "kernel_breakdown": KernelBreakdownPanel,
    "idle_time": IdleTimePanel,
    "idle_owners": IdleOwnersPanel,
    "collectives": CollectivesPanel,
    "operators": OperatorsPanel,
    "modules": ModulesPanel,
    "flame": FlamePanel,
    "gpu_annotations": AnnotationsPanel,
    "roofline": RooflinePanel,
    "launch_stats": LaunchStatsPanel,
    "duration_tails": DurationTailsPanel,
    "launch_overlap": LaunchOverlapPanel,
    "queue_length": QueueLengthPanel,
    "memory_bandwidth": MemoryBandwidthPanel,
    "memory_use": MemoryPanel,
    "kernel_sequences": KernelSequencesPanel,
    "cupti_counters": CuptiCountersPanel,
}
"""By the name of their analysis, in their order on a dashboard."""
