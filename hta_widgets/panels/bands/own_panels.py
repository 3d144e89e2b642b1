"""Panels that only a dashboard has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hta_widgets.panels.bands.compared import ComparedFindingsPanel
from hta_widgets.panels.bands.of_diagnosis import RanksPanel, StepsPanel
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.compare import ComparePanel
from hta_widgets.trace.job import Job

OF_DIAGNOSIS: dict[str, type[Panel[Any]]] = {"ranks": RanksPanel, "steps": StepsPanel}
"""Panels of a dashboard that show more of the diagnosis."""

OF_TWO_JOBS: dict[str, Callable[..., Panel[Any]]] = {
    "compared_findings": ComparedFindingsPanel,
    "compare": ComparePanel,
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
