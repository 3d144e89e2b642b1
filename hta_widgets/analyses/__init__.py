"""Analyses of a job: each returns a `Result`, which has named tables and a finding."""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hta_widgets.analyses.clocks import Clocks, clocks
    from hta_widgets.analyses.collectives import Collectives, collectives
    from hta_widgets.analyses.compare import Compare, compare
    from hta_widgets.analyses.cupti_counters import CuptiCounters, cupti_counters
    from hta_widgets.analyses.duration_tails import DurationTails, duration_tails
    from hta_widgets.analyses.flame import Flame, flame
    from hta_widgets.analyses.gpu_annotations import GpuAnnotations, gpu_annotations
    from hta_widgets.analyses.idle_owners import IdleOwners, idle_owners
    from hta_widgets.analyses.idle_time import IdleTime, idle_time
    from hta_widgets.analyses.kernel_breakdown import KernelBreakdown, kernel_breakdown
    from hta_widgets.analyses.kernel_sequences import KernelSequences, kernel_sequences
    from hta_widgets.analyses.launch_facts import LaunchFacts, launch_facts
    from hta_widgets.analyses.launch_overlap import LaunchOverlap, launch_overlap
    from hta_widgets.analyses.launch_stats import LaunchStats, launch_stats
    from hta_widgets.analyses.memory_bandwidth import MemoryBandwidth, memory_bandwidth
    from hta_widgets.analyses.memory_use import MemoryUse, memory_use
    from hta_widgets.analyses.modules import ModuleTree, modules
    from hta_widgets.analyses.operators import OperatorTable, operators
    from hta_widgets.analyses.overlap import Overlap, overlap
    from hta_widgets.analyses.queue_length import QueueLength, queue_length
    from hta_widgets.analyses.rank_overlap import RankOverlap, rank_overlap
    from hta_widgets.analyses.result import Result
    from hta_widgets.analyses.roofline import Roofline, roofline
    from hta_widgets.analyses.step_table import StepTable, step_table
    from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown, temporal_breakdown
    from hta_widgets.analyses.timeline import Timeline, timeline

__all__ = [
    "Clocks",
    "Collectives",
    "Compare",
    "CuptiCounters",
    "DurationTails",
    "Flame",
    "GpuAnnotations",
    "IdleOwners",
    "IdleTime",
    "KernelBreakdown",
    "KernelSequences",
    "LaunchFacts",
    "LaunchOverlap",
    "LaunchStats",
    "MemoryBandwidth",
    "MemoryUse",
    "ModuleTree",
    "OperatorTable",
    "Overlap",
    "QueueLength",
    "RankOverlap",
    "Result",
    "Roofline",
    "StepTable",
    "TemporalBreakdown",
    "Timeline",
    "clocks",
    "collectives",
    "compare",
    "cupti_counters",
    "duration_tails",
    "flame",
    "gpu_annotations",
    "idle_owners",
    "idle_time",
    "kernel_breakdown",
    "kernel_sequences",
    "launch_facts",
    "launch_overlap",
    "launch_stats",
    "memory_bandwidth",
    "memory_use",
    "modules",
    "operators",
    "overlap",
    "queue_length",
    "rank_overlap",
    "roofline",
    "step_table",
    "temporal_breakdown",
    "timeline",
]


class _Analyses(ModuleType):
    """Loads an analysis when it is first used, and keeps its function under its name.

    Importing ``hta_widgets.analyses.idle_time`` would make that name the module of the analysis,
    and it would depend on what was imported before whether ``analyses.idle_time`` can be called.
    All analyses take 27 ms to import, one of them 5 (pandas aside); workers need one.

    Python looks up ``import hta_widgets.analyses.idle_time.gaps as gaps`` attribute by attribute,
    so it asks the function for ``gaps``. The function and its module have one namespace: whatever
    is imported from the module is found on the function, too.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name not in __all__:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = import_module(f"{__name__}.{_module_of(name)}")
        value: object = getattr(module, name)
        if isinstance(value, FunctionType):
            value.__dict__ = module.__dict__
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(__all__)


_RESULTS_NAMED_OTHERWISE = {"ModuleTree": "modules", "OperatorTable": "operators"}


def _module_of(name: str) -> str:
    """Name of the module of an analysis, or of the analysis of a result.

    Examples
    --------
    >>> _module_of("idle_time"), _module_of("IdleTime"), _module_of("OperatorTable")
    ('idle_time', 'idle_time', 'operators')
    """
    if name in _RESULTS_NAMED_OTHERWISE:
        return _RESULTS_NAMED_OTHERWISE[name]
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    return words.removeprefix("_")


sys.modules[__name__].__class__ = _Analyses
