"""Base class of the panels that compare two jobs."""

from __future__ import annotations

from dataclasses import InitVar, field
from typing import TYPE_CHECKING, Any

from traitlets import TraitType

from hta_widgets.panels.base.drawn_widget import Source
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.rendered_view import ResultT
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import as_job


class PanelOfTwo(Panel[ResultT]):
    """A panel over all ranks of two jobs, linked to the selection of the first job.

    Parameters
    ----------
    first, second : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        The jobs to compare; changes are from the first to the second.
    **parameters
        As for every `Panel`, except `ranks`.
    """

    any_number_of_ranks = True

    if TYPE_CHECKING:  # keywords of subclasses, as `__init__` takes them
        source: InitVar[Source] = field(init=False)
        ranks: list[int] = field(init=False)
        first: InitVar[Source] = field(kw_only=False)
        second: TraitType[Job, Source] = field(kw_only=False)

    def __init__(self, first: Source, second: Source, **parameters: Any) -> None:  # noqa: ANN401
        self._reject_unknown(parameters)
        job, self.second = as_job(first), as_job(second)
        super().__init__(job, **parameters)

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters, without `ranks`, as the jobs may have different ranks."""
        return tuple(name for name in super().parameters() if name != "ranks")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Both jobs."""
        return self.job, self.second
