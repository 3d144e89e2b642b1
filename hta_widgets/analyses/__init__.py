"""Analyses of a job: each returns a `Result`, which has named tables and a finding.

They raise `UnknownRankError` for a rank that the job lacks, `UnknownStepError` for a step that none
of the ranks has, and `ParameterError` for any other undocumented value, such as a window without
length. The messages list the valid values. Anything that is not a job, such as a path, raises a
`TypeError`: use `open_trace` to make a job of it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # for editors only; at run time, `_Analyses` finds the modules
    from hta_widgets.analyses.clocks import Clocks as Clocks
    from hta_widgets.analyses.clocks import clocks as clocks
    from hta_widgets.analyses.collectives import Collectives as Collectives
    from hta_widgets.analyses.collectives import collectives as collectives
    from hta_widgets.analyses.compare import Compare as Compare
    from hta_widgets.analyses.compare import compare as compare
    from hta_widgets.analyses.cupti_counters import CuptiCounters as CuptiCounters
    from hta_widgets.analyses.cupti_counters import cupti_counters as cupti_counters
    from hta_widgets.analyses.duration_tails import DurationTails as DurationTails
    from hta_widgets.analyses.duration_tails import duration_tails as duration_tails
    from hta_widgets.analyses.flame import Flame as Flame
    from hta_widgets.analyses.flame import flame as flame
    from hta_widgets.analyses.gpu_annotations import GpuAnnotations as GpuAnnotations
    from hta_widgets.analyses.gpu_annotations import gpu_annotations as gpu_annotations
    from hta_widgets.analyses.idle_owners import IdleOwners as IdleOwners
    from hta_widgets.analyses.idle_owners import idle_owners as idle_owners
    from hta_widgets.analyses.idle_time import IdleTime as IdleTime
    from hta_widgets.analyses.idle_time import idle_time as idle_time
    from hta_widgets.analyses.kernel_breakdown import KernelBreakdown as KernelBreakdown
    from hta_widgets.analyses.kernel_breakdown import kernel_breakdown as kernel_breakdown
    from hta_widgets.analyses.kernel_sequences import KernelSequences as KernelSequences
    from hta_widgets.analyses.kernel_sequences import kernel_sequences as kernel_sequences
    from hta_widgets.analyses.launch_facts import LaunchFacts as LaunchFacts
    from hta_widgets.analyses.launch_facts import launch_facts as launch_facts
    from hta_widgets.analyses.launch_overlap import LaunchOverlap as LaunchOverlap
    from hta_widgets.analyses.launch_overlap import launch_overlap as launch_overlap
    from hta_widgets.analyses.launch_stats import LaunchStats as LaunchStats
    from hta_widgets.analyses.launch_stats import launch_stats as launch_stats
    from hta_widgets.analyses.memory_bandwidth import MemoryBandwidth as MemoryBandwidth
    from hta_widgets.analyses.memory_bandwidth import memory_bandwidth as memory_bandwidth
    from hta_widgets.analyses.memory_use import MemoryUse as MemoryUse
    from hta_widgets.analyses.memory_use import memory_use as memory_use
    from hta_widgets.analyses.modules import ModuleTree as ModuleTree
    from hta_widgets.analyses.modules import modules as modules
    from hta_widgets.analyses.operators import OperatorTable as OperatorTable
    from hta_widgets.analyses.operators import operators as operators
    from hta_widgets.analyses.overlap import Overlap as Overlap
    from hta_widgets.analyses.overlap import overlap as overlap
    from hta_widgets.analyses.queue_length import QueueLength as QueueLength
    from hta_widgets.analyses.queue_length import queue_length as queue_length
    from hta_widgets.analyses.rank_overlap import RankOverlap as RankOverlap
    from hta_widgets.analyses.rank_overlap import rank_overlap as rank_overlap
    from hta_widgets.analyses.result import Result as Result
    from hta_widgets.analyses.roofline import Roofline as Roofline
    from hta_widgets.analyses.roofline import roofline as roofline
    from hta_widgets.analyses.server_steps import ServerStepTable as ServerStepTable
    from hta_widgets.analyses.server_steps import server_steps as server_steps
    from hta_widgets.analyses.step_table import StepTable as StepTable
    from hta_widgets.analyses.step_table import step_table as step_table
    from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown as TemporalBreakdown
    from hta_widgets.analyses.temporal_breakdown import temporal_breakdown as temporal_breakdown
    from hta_widgets.analyses.timeline import Timeline as Timeline
    from hta_widgets.analyses.timeline import timeline as timeline

_NO_ANALYSES: Final = frozenset({"budget", "communication", "plain_text", "result", "time"})
_RESULTS_NAMED_OTHERWISE: Final = {
    "modules": "ModuleTree",
    "operators": "OperatorTable",
    "server_steps": "ServerStepTable",
}


def _result_of(analysis: str) -> str:
    """Name of the result of an analysis.

    Examples
    --------
    >>> _result_of("idle_time"), _result_of("operators")
    ('IdleTime', 'OperatorTable')
    """
    words = analysis.split("_")
    return _RESULTS_NAMED_OTHERWISE.get(analysis, "".join(word.capitalize() for word in words))


_FOUND: Final = sorted({found.name for found in iter_modules(__path__)} - _NO_ANALYSES)
_MODULES: Final = {"Result": "result"} | {
    name: analysis for analysis in _FOUND for name in (analysis, _result_of(analysis))
}
"""The module of each name; an analysis has the name of its module."""

globals()["__all__"] = sorted(_MODULES)


class _Analyses(ModuleType):
    """Loads an analysis when it is first used, and keeps its function under its name.

    Importing ``hta_widgets.analyses.idle_time`` would bind that name to the module of the analysis,
    so that whether ``analyses.idle_time`` can be called would depend on earlier imports. Python
    resolves ``import hta_widgets.analyses.idle_time.gaps as gaps`` attribute by attribute, so it
    asks the function for ``gaps``. The function and its module therefore share a namespace:
    whatever is imported from the module is found on the function, too.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _MODULES):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name not in _MODULES:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = import_module(f"{__name__}.{_MODULES[name]}")
        value: object = getattr(module, name)
        if isinstance(value, FunctionType):
            value.__dict__ = module.__dict__
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(_MODULES)


sys.modules[__name__].__class__ = _Analyses
