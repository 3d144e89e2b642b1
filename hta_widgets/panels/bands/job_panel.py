"""Panel of the job itself, which is the header of a dashboard."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import PanelSpec
from hta_widgets.panels.base.shown_paths import distinct_endings
from hta_widgets.quantities import counted, number_ranges
from hta_widgets.trace.ranks.replayed_calls import capture_notices


class JobPanel(Panel[Result]):
    """The job: its name, its ranks, and what was left out."""

    any_number_of_ranks = True

    def analyse(self, ranks: list[int]) -> Result:
        """Count the ranks of the job."""
        every = self.job.ranks
        finding = f"{counted(len(every), 'rank')}: {number_ranges(every)}."
        chosen = ranks or every
        notices = (*self.job.notices_for(chosen), *self.job.noticed(capture_notices, chosen))
        return Result(finding=finding, notices=notices)

    def draw(self, result: Result) -> dict[str, Drawing]:  # noqa: ARG002
        """Return no figures: the job has none."""
        return {}

    def tabulate(self, result: Result) -> pd.DataFrame:  # noqa: ARG002
        """List the file of each rank, or its URL."""
        sources = self.job.sources.values()
        endings = distinct_endings([str(source.path) for source in sources])
        files = [
            ending if source.remote is None else source.name
            for source, ending in zip(sources, endings, strict=True)
        ]
        return pd.DataFrame({"rank": list(self.job.sources), "file": files})

    def _describe(self) -> PanelSpec:
        return {**super()._describe(), "title": self.job.name}
