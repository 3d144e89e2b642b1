"""The tabs of a dashboard, and the panels in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.cpu_work import COLLECTIVES, RANGES, CpuWork
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
"""Names and labels of the tabs, in order; a tab without panels is left out."""

OF_KERNELS: Final = "kernel_breakdown"
"""The panel that says the most about a job that only faster kernels would help."""

OF_CPUS: Final = "operators"
OF_RANGES: Final = "gpu_annotations"
OF_COUNTERS: Final = "cupti_counters"
"""The panels that show what CPUs did: in general; collectives, and ranges if no operators were
recorded; and kernels whose counters were read, of which the operators have the times of replays."""


def order(panel: type[Panel[Any]]) -> tuple[int, int, str]:
    """Sort key for the order of panels on a dashboard: bands, then tab by tab.

    Raises a `TypeError` if the panel names a tab that does not exist.
    """
    tabs = [None, *TABS]
    if panel.tab not in tabs:
        msg = f"{panel.__name__}.tab is {panel.tab!r}; a dashboard has {', '.join(map(repr, tabs))}"
        raise TypeError(msg)
    return tabs.index(panel.tab), panel.place, panel.name


def tabs_of(panels: Mapping[str, type[Panel[Any]]]) -> list[Tab]:
    """The tabs of a dashboard; its panels follow the header, so the first is at position 1."""
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

    Without a finding, this is the kernels panel; without GPU work, that of what takes most time.
    """
    for finding in found:
        return finding.links[0].panel if finding.links else ""
    if found.cpu_work is None:
        return OF_KERNELS
    return panel_of(found.cpu_work, next(iter(found.cpu_work.parts), ""))


def panel_of(work: CpuWork, part: str) -> str:
    """Name of the panel that shows a part of what the CPUs did."""
    if work.measured:
        return OF_COUNTERS
    return OF_RANGES if part in {RANGES, COLLECTIVES} else OF_CPUS
