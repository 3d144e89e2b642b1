"""What all methods of `TraceAnalysis` share."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from hta_widgets.hta_trace.trace import Trace
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.steps import analysed_steps
from hta_widgets.trace.ranks.rank import Rank

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from hta_widgets.figures.base.drawing import Drawing


_log = logging.getLogger(__name__)

_PICTURES: Final = frozenset({"png", "jpeg", "jpg", "svg", "pdf"})
_INTERACTIVE: Final = "plotly_mimetype"
"""What JupyterLab, VS Code and other hosts draw; a notebook without it shows the text."""


class JobMethods:
    """Methods that ask a job."""

    job: Job
    """The loaded traces; its ``notices`` list what was left out."""

    @cached_property
    def t(self) -> Trace:
        """HTA's frame of events for each rank, and its table of symbols."""
        return Trace(self.job)

    def get_profiler_steps(self) -> list[int]:
        """Numbers of the ProfilerSteps that are analysed, of all ranks together."""
        steps = self.job.reduce(_steps_of, self.job.ranks).values()
        return sorted(set[int]().union(*steps))

    def _ranks_or_first(self, ranks: Iterable[int] | None) -> tuple[int, ...]:
        """No rank given means rank 0 in HTA, and the first available rank here."""
        chosen = tuple(ranks or ())
        return self.job.select_ranks(chosen or self.job.ranks[:1])


def _steps_of(rank: Rank) -> tuple[int, ...]:
    include_last = rank.settings.include_last_profiler_step
    return analysed_steps(rank.profiler_steps, include_last_profiler_step=include_last)


def show(drawn: Drawing, title: str, renderer: str = "") -> None:
    """Show a figure as plotly does."""
    from hta_widgets.figures.base.style import titled

    show_figure(titled(drawn, title).figure(), renderer)


def show_figure(figure: go.Figure, renderer: str = "") -> None:
    """Show a figure with a renderer of plotly, or interactive where it needs what is missing.

    HTA's notebooks ask for pictures (``png``, ``svg``), for which plotly needs the package kaleido:
    without it, a table would be lost with the figure.
    """
    import plotly.io as pio

    wanted = renderer or str(pio.renderers.default)
    if not _PICTURES.isdisjoint(wanted.split("+")) and find_spec("kaleido") is None:
        _warn_of_pictures(wanted)
        renderer = _INTERACTIVE
    figure.show(renderer=renderer or None)


@cache  # a breakdown of eight ranks has 25 figures
def _warn_of_pictures(renderer: str) -> None:
    _log.warning(
        "the renderer %r of plotly needs kaleido (pip install kaleido); figures are shown as "
        "interactive ones",
        renderer,
    )
