"""Find out in a notebook why a GPU job is slow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hta_widgets.garbage_collection import no_garbage_collection

if TYPE_CHECKING:
    from types import ModuleType

    from IPython.core.interactiveshell import InteractiveShell

    from hta_widgets.cli.doctor import doctor
    from hta_widgets.diagnosis.analysis import diagnose
    from hta_widgets.diagnosis.finding import Finding
    from hta_widgets.diagnosis.limits import Limits
    from hta_widgets.diagnosis.rank_answers import replay
    from hta_widgets.export.anonymise.copies import anonymise
    from hta_widgets.panels.compared import compare
    from hta_widgets.panels.dashboard import Dashboard
    from hta_widgets.recording.profiler import profile
    from hta_widgets.trace.opening.open import RankSample, open_trace
    from hta_widgets.trace_analysis import TraceAnalysis
    from hta_widgets.trace_diff import LabeledTrace, TraceDiff
    from hta_widgets.version import __version__

__all__ = [
    "Dashboard",
    "Finding",
    "LabeledTrace",
    "Limits",
    "RankSample",
    "TraceAnalysis",
    "TraceDiff",
    "__version__",
    "anonymise",
    "compare",
    "diagnose",
    "doctor",
    "open_trace",
    "profile",
    "replay",
]

_WHERE = {
    "Dashboard": "hta_widgets.panels.dashboard",
    "Finding": "hta_widgets.diagnosis.finding",
    "LabeledTrace": "hta_widgets.trace_diff",
    "Limits": "hta_widgets.diagnosis.limits",
    "RankSample": "hta_widgets.trace.opening.open",
    "TraceAnalysis": "hta_widgets.trace_analysis",
    "TraceDiff": "hta_widgets.trace_diff",
    "__version__": "hta_widgets.version",
    "anonymise": "hta_widgets.export.anonymise.copies",
    "compare": "hta_widgets.panels.compared",
    "diagnose": "hta_widgets.diagnosis.analysis",
    "doctor": "hta_widgets.cli.doctor",
    "open_trace": "hta_widgets.trace.opening.open",
    "profile": "hta_widgets.recording.profiler",
    "replay": "hta_widgets.diagnosis.rank_answers",
}
"""Imported when first used: processes that only load ranks do without widgets and figures."""


def __getattr__(name: str) -> object:
    if name == "sample":  # the examples in the docs write a sample job, and import nothing else
        return _imported("hta_widgets.sample")
    if name not in _WHERE:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value: object = getattr(_imported(_WHERE[name]), name)
    globals()[name] = value
    return value


def _imported(module: str) -> ModuleType:
    """Import a module without looking for garbage meanwhile, a sixth of the dashboard's time."""
    with no_garbage_collection():
        return import_module(module)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """``%load_ext hta_widgets`` adds ``%%gpu_profile``."""
    import_module("hta_widgets.recording.magic").register(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
