"""Panels that only a dashboard has."""

from __future__ import annotations

from typing import Any

from hta_widgets.panels.bands.compared import ComparedFindingsPanel
from hta_widgets.panels.bands.of_diagnosis import RanksPanel, StepsPanel
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.panel_of_two import PanelOfTwo
from hta_widgets.panels.compare import ComparePanel
from hta_widgets.trace.job import Job

OF_DIAGNOSIS: dict[str, type[Panel[Any]]] = {
    panel.name: panel for panel in (RanksPanel, StepsPanel)
}
"""Panels of a dashboard that show more of the diagnosis."""

OF_TWO_JOBS: dict[str, type[PanelOfTwo[Any]]] = {
    panel.name: panel for panel in (ComparedFindingsPanel, ComparePanel)
}
"""Panels of a dashboard that has a second job."""


def panels_of_two(job: Job, second: Job | None) -> dict[str, Panel[Any]]:
    """Make the panels that compare a job with a second one; none without that."""
    if second is None:
        return {}
    return {
        name: panel(job, second, job_notices=False, on_demand=True)
        for name, panel in OF_TWO_JOBS.items()
    }
