"""What a dashboard shows before anything is selected; it is cached with the traces."""

from __future__ import annotations

from typing import TypedDict

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.budget_table import budget
from hta_widgets.diagnosis.report import report
from hta_widgets.figures.diagnosis import budget_title, step_budget
from hta_widgets.figures.svg.picture import svg
from hta_widgets.panels.bands.bands import bands_of
from hta_widgets.panels.bands.messages import Bands
from hta_widgets.panels.bands.tabs import answering_panel
from hta_widgets.panels.bands.together import together
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.base.summary import SUMMARY_BYTES
from hta_widgets.trace.job import Job


class FirstScreen(TypedDict):
    """Everything made from the diagnosis of a job before anything is selected.

    `verdict` is its report, `answer` the name of the panel that shows the most expensive finding,
    and `budget` a picture of where a step goes, as SVG, by its title.
    """

    bands: Bands
    together: str
    verdict: str
    answer: str
    budget: dict[str, str]


def first_screen(job: Job) -> FirstScreen:
    """Diagnose a job, or reuse what an earlier session made of its diagnosis."""
    return job.recall(_first_screen, FirstScreen)


def _first_screen(job: Job) -> FirstScreen:
    found = job.remember(diagnosis)
    table, pictures = budget(found.steps), {}
    if not table.empty:
        lost_most = found.health.lost_most
        bar = step_budget(table, causes=[each.cause for each in found], lost_most=lost_most)
        pictures[budget_title(table)] = svg(bar, points=SUMMARY_BYTES)
    return FirstScreen(
        bands=bands_of(found, _Nothing()),
        together=together(found, ()),
        verdict=report(found),
        answer=answering_panel(found),
        budget=pictures,
    )


class _Nothing(Selection):
    """A selection that pages are not told about."""

    def open(self) -> None:
        """Open no model: a page reports an error for a model that is closed at once."""
