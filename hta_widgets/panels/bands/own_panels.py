"""Panels that only a dashboard has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hta_widgets.panels.bands.compared import ComparedFindingsPanel
from hta_widgets.panels.bands.of_diagnosis import RanksPanel, StepsPanel
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.compare import ComparePanel

OF_DIAGNOSIS: dict[str, type[Panel[Any]]] = {"ranks": RanksPanel, "steps": StepsPanel}
"""Panels of a dashboard that show more of the diagnosis."""

OF_TWO_JOBS: dict[str, Callable[..., Panel[Any]]] = {
    "compared_findings": ComparedFindingsPanel,
    "compare": ComparePanel,
}
"""Panels of a dashboard that has a second job."""
