"""What all methods of `TraceAnalysis` share."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from hta_widgets.hta_trace.trace import Trace
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.steps import analysed_steps
from hta_widgets.trace.ranks.rank import Rank

if TYPE_CHECKING:
    from hta_widgets.figures.base.drawing import Drawing


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
    return analysed_steps(rank.steps, include_last_profiler_step=include_last)


def show(drawn: Drawing, title: str, renderer: str = "") -> None:
    """Show a figure as plotly does."""
    from hta_widgets.figures.base.style import titled

    titled(drawn, title).figure().show(renderer=renderer or None)
