"""The types that an editor shows for panels."""

from __future__ import annotations

from typing import Literal

from typing_extensions import assert_type

from hta_widgets import TraceAnalysis
from hta_widgets.analyses.compare import Compare
from hta_widgets.analyses.cupti_counters import CuptiCounters
from hta_widgets.analyses.duration_tails import DurationTails
from hta_widgets.analyses.flame import Flame
from hta_widgets.analyses.idle_owners import IdleOwners
from hta_widgets.analyses.idle_time import IdleTime
from hta_widgets.analyses.kernel_breakdown import KernelBreakdown
from hta_widgets.analyses.kernel_sequences import KernelSequences
from hta_widgets.analyses.launch_overlap import LaunchOverlap
from hta_widgets.analyses.launch_stats import LaunchStats
from hta_widgets.analyses.memory_bandwidth import MemoryBandwidth
from hta_widgets.analyses.memory_use import MemoryUse
from hta_widgets.analyses.modules import ModuleTree
from hta_widgets.analyses.overlap import Overlap
from hta_widgets.analyses.queue_length import QueueLength
from hta_widgets.analyses.rank_overlap import RankOverlap
from hta_widgets.analyses.roofline import Roofline
from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown
from hta_widgets.panels import (
    ComparePanel,
    CuptiCountersPanel,
    DurationTailsPanel,
    FlamePanel,
    IdleOwnersPanel,
    IdleTimePanel,
    KernelBreakdownPanel,
    KernelSequencesPanel,
    LaunchOverlapPanel,
    LaunchStatsPanel,
    MemoryBandwidthPanel,
    MemoryPanel,
    ModulesPanel,
    OverlapPanel,
    QueueLengthPanel,
    RankOverlapPanel,
    RooflinePanel,
    Selection,
    TemporalBreakdownPanel,
)


def results(source: str) -> None:
    """Each panel's result is that of its analysis."""
    assert_type(ComparePanel(source, source).result, Compare)
    assert_type(CuptiCountersPanel(source).result, CuptiCounters)
    assert_type(DurationTailsPanel(source).result, DurationTails)
    assert_type(FlamePanel(source).result, Flame)
    assert_type(IdleOwnersPanel(source).result, IdleOwners)
    assert_type(ModulesPanel(source).result, ModuleTree)
    assert_type(IdleTimePanel(source).result, IdleTime)
    assert_type(KernelBreakdownPanel(source).result, KernelBreakdown)
    assert_type(KernelSequencesPanel(source).result, KernelSequences)
    assert_type(LaunchOverlapPanel(source).result, LaunchOverlap)
    assert_type(LaunchStatsPanel(source).result, LaunchStats)
    assert_type(MemoryBandwidthPanel(source).result, MemoryBandwidth)
    assert_type(MemoryPanel(source).result, MemoryUse)
    assert_type(RooflinePanel(source).result, Roofline)
    assert_type(OverlapPanel(source).result, Overlap)
    assert_type(QueueLengthPanel(source).result, QueueLength)
    assert_type(RankOverlapPanel(source).result, RankOverlap)
    assert_type(TemporalBreakdownPanel(source).result, TemporalBreakdown)


def parameters(panel: IdleTimePanel) -> None:
    """Parameters have the types of their values."""
    assert_type(panel.level, Literal["stream", "device"])
    assert_type(panel.consecutive_kernel_delay, float)
    assert_type(panel.visualize_pctg, bool)
    assert_type(panel.ranks, list[int])
    assert_type(panel.streams, list[int])
    panel.level = "gpu"  # type: ignore[assignment]


def keywords(analysis: TraceAnalysis, selection: Selection) -> None:
    """Panels take their own parameters and those of every panel."""
    KernelBreakdownPanel(analysis, num_kernels=5, kernel_type="MEMORY", ranks=[0])
    ComparePanel(analysis, analysis.job, selection=selection, job_notices=False, layout={})
    KernelBreakdownPanel(analysis, num_kernals=5)  # type: ignore[call-arg]
    KernelBreakdownPanel(analysis, num_kernels="5")  # type: ignore[arg-type]
    KernelBreakdownPanel(analysis, kernel_type="COPY")  # type: ignore[arg-type]
    KernelBreakdownPanel(analysis, 5)  # type: ignore[call-arg, arg-type]
    KernelBreakdownPanel()  # type: ignore[call-arg]
    QueueLengthPanel(analysis, window_us=[0, 2.5], selection=None, on_demand=True)
    QueueLengthPanel(analysis, window_us="all")  # type: ignore[arg-type]
    ComparePanel(analysis, second=analysis.job, per_step=True)
    ComparePanel(analysis)  # type: ignore[call-arg]
    ComparePanel(analysis, analysis, ranks=[0])  # type: ignore[call-arg]
    ComparePanel(source=analysis, second=analysis)  # type: ignore[call-arg]
