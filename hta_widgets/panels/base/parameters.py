"""Keyword arguments that every panel takes, for editors and type checkers."""

from __future__ import annotations

from typing import TypeAlias, TypedDict

import ipywidgets

from hta_widgets.panels.base.selection import Selection
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import HasJob
from hta_widgets.trace.remote.urls import PathLike, TraceSource

Source: TypeAlias = Job | HasJob | TraceSource
"""What a panel can open: a job, a `TraceAnalysis`, paths or URLs."""


class WidgetParameters(TypedDict, total=False):
    """Parameters that every panel takes."""

    selection: Selection | None
    job_notices: bool
    layout: ipywidgets.Layout | dict[str, str]
    output_dir: PathLike | None
    on_demand: bool


class PanelParameters(WidgetParameters, total=False):
    """Parameters that every panel of one job takes."""

    ranks: list[int]
