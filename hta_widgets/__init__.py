"""Find out in a notebook why a GPU job is slow."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from hta_widgets.panels.dashboard import Dashboard
from hta_widgets.trace.open import open_trace
from hta_widgets.trace_analysis import TraceAnalysis

try:
    __version__ = version("hta_widgets")
except PackageNotFoundError:
    __version__ = "0+unknown"

__all__ = ["Dashboard", "TraceAnalysis", "__version__", "open_trace"]
