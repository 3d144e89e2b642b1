"""One widget per analysis, with its parameters as traits, its result and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hta_widgets.panels.base.panel import Panel as Panel
from hta_widgets.panels.base.selection import Selection as Selection
from hta_widgets.panels.dashboard import Dashboard as Dashboard
from hta_widgets.panels.every import EVERY

if TYPE_CHECKING:  # for editors; at run time, `every` finds the panels
    from hta_widgets.panels.collectives import CollectivesPanel as CollectivesPanel
    from hta_widgets.panels.compare import ComparePanel as ComparePanel
    from hta_widgets.panels.critical_path import CriticalPathPanel as CriticalPathPanel
    from hta_widgets.panels.cupti_counters import CuptiCountersPanel as CuptiCountersPanel
    from hta_widgets.panels.diagnosis import DiagnosisPanel as DiagnosisPanel
    from hta_widgets.panels.duration_tails import DurationTailsPanel as DurationTailsPanel
    from hta_widgets.panels.flame import FlamePanel as FlamePanel
    from hta_widgets.panels.gpu_annotations import AnnotationsPanel as AnnotationsPanel
    from hta_widgets.panels.idle_owners import IdleOwnersPanel as IdleOwnersPanel
    from hta_widgets.panels.idle_time import IdleTimePanel as IdleTimePanel
    from hta_widgets.panels.kernel_breakdown import KernelBreakdownPanel as KernelBreakdownPanel
    from hta_widgets.panels.kernel_sequences import KernelSequencesPanel as KernelSequencesPanel
    from hta_widgets.panels.launch_overlap import LaunchOverlapPanel as LaunchOverlapPanel
    from hta_widgets.panels.launch_stats import LaunchStatsPanel as LaunchStatsPanel
    from hta_widgets.panels.memory_bandwidth import MemoryBandwidthPanel as MemoryBandwidthPanel
    from hta_widgets.panels.memory_use import MemoryPanel as MemoryPanel
    from hta_widgets.panels.modules import ModulesPanel as ModulesPanel
    from hta_widgets.panels.operators import OperatorsPanel as OperatorsPanel
    from hta_widgets.panels.overlap import OverlapPanel as OverlapPanel
    from hta_widgets.panels.queue_length import QueueLengthPanel as QueueLengthPanel
    from hta_widgets.panels.rank_overlap import RankOverlapPanel as RankOverlapPanel
    from hta_widgets.panels.roofline import RooflinePanel as RooflinePanel
    from hta_widgets.panels.server_steps import ServerStepsPanel as ServerStepsPanel
    from hta_widgets.panels.temporal_breakdown import (
        TemporalBreakdownPanel as TemporalBreakdownPanel,
    )
    from hta_widgets.panels.timeline import TimelinePanel as TimelinePanel
    from hta_widgets.panels.what_if import WhatIfPanel as WhatIfPanel

_NAMED = {panel.__name__: panel for panel in EVERY.values()}

_ALL = sorted(["Dashboard", "Panel", "Selection", *_NAMED])

globals().update(_NAMED, __all__=_ALL)


def __dir__() -> list[str]:
    return _ALL
