"""The tabs of a dashboard, and the panels in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.cpu_work import OPERATORS, RANGES
from hta_widgets.panels.bands.messages import Tab
from hta_widgets.panels.base.panel import Panel

TABS: Final = {
    "ranks": "Ranks",
    "steps": "Steps",
    "critical_path": "Critical path",
    "kernels": "Kernels",
    "operators": "Operators",
    "communication": "Communication",
    "idle": "Idle & launch",
    "memory": "Memory",
    "compare": "Compare",
    "counters": "CUPTI counters",
    "others": "More",
}
"""Tabs as panels name them, and as on screen, in that order; one without panels is left out."""

OF_KERNELS: Final = "kernel_breakdown"
"""Name of the panel that says most of a job that only faster kernels would help."""

OF_CPUS: Final = "operators"
OF_RANGES: Final = "gpu_annotations"
"""Name of the panel that says most of a job without GPU work, and where only ranges are recorded:
that of the operators was empty, and opened all the same."""


def order(panel: type[Panel[Any]]) -> tuple[int, int, str]:
    """Sort key of panels in their order on a dashboard: bands, then tab by tab.

    Raises
    ------
    TypeError
        If there is no tab of the name that the panel gives.
    """
    tabs = [None, *TABS]
    if panel.tab not in tabs:
        msg = f"{panel.__name__}.tab is {panel.tab!r}; a dashboard has {', '.join(map(repr, tabs))}"
        raise TypeError(msg)
    return tabs.index(panel.tab), panel.place, panel.name


def tabs_of(panels: Mapping[str, type[Panel[Any]]]) -> list[Tab]:
    """The tabs of a dashboard.

    Parameters
    ----------
    panels : mapping of str to type
        Classes of its panels by name. They stand behind the header, so the first has place 1.
    """
    numbers = {panel: number for number, panel in enumerate(panels.values(), start=1)}
    tabs = []
    for name, label in TABS.items():
        inside = sorted((panel for panel in numbers if panel.tab == name), key=order)
        if inside:
            places = [numbers[panel] for panel in inside]
            tabs.append(Tab(name=name, label=label, panels=places))
    return tabs


def answering_panel(found: Diagnosis) -> str:
    """Name of the panel that shows the most expensive finding.

    That is the kernels where nothing stands out, and the operators or ranges without GPU work.
    """
    for finding in found:
        return finding.links[0].panel if finding.links else ""
    if found.cpu_work is None:
        return OF_KERNELS
    lists = found.cpu_work.lists
    return OF_RANGES if RANGES in lists and OPERATORS not in lists else OF_CPUS
