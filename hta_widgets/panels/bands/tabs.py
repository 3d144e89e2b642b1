"""The tabs of a dashboard, and the panels in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hta_widgets.panels.bands.messages import Tab
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.job import Job


class NamedTab(NamedTuple):
    """A tab, whichever panels it has: each names its tab and its place there.

    Attributes
    ----------
    name : str
        As panels name it.
    label : str
        As on screen.
    without : str
        What is said in place of panels where there are none; if that is nothing, there is no tab.
    """

    name: str
    label: str
    without: str = ""


NOTHING_COMPARED: Final = (
    'Nothing to compare with: Dashboard(job, compare="path/to/a/later/run") or dash.compare = …'
    " shows which findings are gone."
)

TABS: Final = (
    NamedTab("ranks", "Ranks"),
    NamedTab("steps", "Steps"),
    NamedTab("critical_path", "Critical path"),
    NamedTab("kernels", "Kernels"),
    NamedTab("operators", "Operators"),
    NamedTab("communication", "Communication"),
    NamedTab("idle", "Idle & launch"),
    NamedTab("memory", "Memory"),
    NamedTab("compare", "Compare", without=NOTHING_COMPARED),
    NamedTab("counters", "CUPTI counters"),
    NamedTab("others", "More"),
)
"""In their order on screen; a tab without panels is left out, unless it says what to do."""

OF_CPUS: Final = "operators"
"""Name of the tab that says most of a job without GPU work."""


def order(panel: type[Panel[Any]]) -> tuple[int, int, str]:
    """Sort key of panels in their order on a dashboard: bands, then tab by tab.

    Raises
    ------
    TypeError
        If there is no tab of the name that the panel gives.
    """
    tabs = [None, *(tab.name for tab in TABS)]
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
    for tab in TABS:
        inside = sorted((panel for panel in numbers if panel.tab == tab.name), key=order)
        open_ones = [numbers[panel] for panel in inside if not panel.folded]
        folded = [numbers[panel] for panel in inside if panel.folded]
        if inside or tab.without:
            tabs.append(
                Tab(
                    name=tab.name,
                    label=tab.label,
                    panels=open_ones or folded,  # nothing is folded where that would be all
                    folded=folded if open_ones else [],
                    without="" if inside else tab.without,
                )
            )
    return tabs


def first_tab(job: Job, tabs: Sequence[Tab]) -> str:
    """Name of the tab that is open at first: that of the operators if there is no GPU work."""
    names = [tab["name"] for tab in tabs]
    wanted = [] if job.has_gpu_work() else [name for name in names if name == OF_CPUS]
    return next(iter([*wanted, *names]), "")
