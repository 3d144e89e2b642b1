"""The tabs of a dashboard, and the panels in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hta_widgets.panels.bands.messages import Tab
from hta_widgets.trace.job import Job


class TabPanels(NamedTuple):
    """A tab.

    Attributes
    ----------
    name : str
    label : str
        As on screen.
    panels : tuple of str
        Names of its panels, those that a dashboard may lack included.
    folded : tuple of str
        The same, of panels that are shown on demand.
    without : str
        What is said in place of panels where there are none; if that is nothing, there is no tab.
    """

    name: str
    label: str
    panels: tuple[str, ...]
    folded: tuple[str, ...] = ()
    without: str = ""


NOTHING_COMPARED: Final = (
    'Nothing to compare with: Dashboard(job, compare="path/to/a/later/run") or dash.compare = …'
    " shows which findings are gone."
)

TABS: Final = (
    TabPanels("ranks", "Ranks", ("ranks",), ("rank_overlap", "temporal_breakdown")),
    TabPanels("steps", "Steps", ("steps",)),
    TabPanels("kernels", "Kernels", ("kernel_breakdown", "duration_tails", "kernel_sequences")),
    TabPanels(
        "operators",
        "Operators",
        ("operators", "flame", "modules", "gpu_annotations", "roofline"),
    ),
    TabPanels("communication", "Communication", ("collectives", "overlap")),
    TabPanels(
        "idle",
        "Idle & launch",
        ("idle_owners", "idle_time", "launch_stats", "launch_overlap", "queue_length"),
    ),
    TabPanels("memory", "Memory", ("memory_use", "memory_bandwidth")),
    TabPanels("compare", "Compare", ("compared_findings", "compare"), without=NOTHING_COMPARED),
    TabPanels("counters", "CUPTI counters", ("cupti_counters",)),
)
"""In their order on screen; a tab without panels is left out, unless it says what to do."""

NOT_IN_TABS: Final = ("diagnosis", "timeline")
"""Panels whose contents are bands of the dashboard."""

OTHERS: Final = ("others", "More")
"""Name and label of the tab of panels that no tab names."""

OF_CPUS: Final = "operators"
"""Name of the tab that says most of a job without GPU work."""


def tabs_of(names: Sequence[str]) -> list[Tab]:
    """The tabs of a dashboard.

    Parameters
    ----------
    names : sequence of str
        Names of its panels. They stand behind the header, so the first has place 1.
    """
    place = {name: number for number, name in enumerate(names, start=1)}
    named = {name for tab in TABS for name in (*tab.panels, *tab.folded)}
    rest = tuple(name for name in names if name not in {*named, *NOT_IN_TABS})
    tabs = [_tab(tab, place) for tab in (*TABS, TabPanels(*OTHERS, rest))]
    return [tab for tab in tabs if tab["panels"] or tab["without"]]


def first_tab(job: Job, tabs: Sequence[Tab]) -> str:
    """Name of the tab that is open at first: that of the operators if there is no GPU work."""
    names = [tab["name"] for tab in tabs]
    wanted = [] if job.has_gpu_work() else [name for name in names if name == OF_CPUS]
    return next(iter([*wanted, *names]), "")


def _tab(tab: TabPanels, place: Mapping[str, int]) -> Tab:
    """Those panels of a tab that there are; nothing is folded where that would be all."""
    panels, folded = (
        [place[name] for name in names if name in place] for names in (tab.panels, tab.folded)
    )
    return Tab(
        name=tab.name,
        label=tab.label,
        panels=panels or folded,
        folded=folded if panels else [],
        without="" if panels or folded else tab.without,
    )
