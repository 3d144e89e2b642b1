"""Messages from a dashboard to its page.

js/src/dashboard/types.ts declares the same types, and a test compares the two.
"""

from __future__ import annotations

from typing import Any, TypedDict

from hta_widgets.panels.base.protocol import FindingRow, Numbers


class Tab(TypedDict):
    """A tab of a dashboard: positions of its panels among all panels, the main one first."""

    name: str
    label: str
    panels: list[int]


class BoardSpec(TypedDict):
    """The parts of a dashboard; a second job adds more.

    `names` are the names of the panels after the first, which is the header; `titles` are their
    headings, and `follows` lists which fields of the selected time each one honours. `timeline` and
    `what_if` are the positions of these panels, if they exist. `cycles` describes all cycles of the
    job, and is empty if there is only one; `cycle` is the position of the one that is shown.
    """

    names: list[str]
    titles: list[str]
    follows: list[list[str]]
    tabs: list[Tab]
    timeline: int | None
    what_if: int | None
    cycles: list[str]
    cycle: int


class BudgetPart(TypedDict):
    """A class of the time of a step.

    `share` and `all_share` are fractions of the longer of the two bars. A click sets `show` in the
    selection, unless it is None, and opens the tab.
    """

    name: str
    label: str
    text: str
    said: str
    color: str
    ink: str
    fill: str
    share: float
    all_share: float
    show: dict[str, Any] | None
    tab: str


class BudgetBand(TypedDict):
    """Where a step goes, for the selection; `compared` if that is not everything.

    `behind` then describes the bar behind it.
    """

    title: str
    whose: str
    compared: bool
    behind: str
    parts: list[BudgetPart]


class Fact(TypedDict):
    """A number with its unit, and a label."""

    label: str
    text: str


class RankBar(TypedDict):
    """The bar of a rank; `share` is its length, from 0 to 1."""

    rank: int
    text: str
    share: float


class Detail(TypedDict):
    """Details of the one selected item, which is shown by its `label`.

    `place` is the position, from 1, of the event that the window shows among `count` events; 0 if
    it shows none.
    """

    kind: str
    name: str
    label: str
    about: str
    facts: list[Fact]
    bars: list[RankBar]
    place: int
    count: int
    code: str


class Bands(TypedDict):
    """What a dashboard shows above its tabs; `ready` once it is computed.

    `everything` takes the place of chips if nothing is selected. `replayed` are the positions of
    the findings that can be ticked, to be removed together. If the GPU is the bottleneck, `to_try`
    lists what else can be done; if the findings save little as well, `kernels` lists the kernels
    with the most time. `notices` are about the verdict, not the job.
    """

    ready: bool
    facts: list[str]
    everything: str
    verdict: str
    said: str
    findings: list[FindingRow]
    replayed: list[int]
    to_try: list[FindingRow]
    kernels: Numbers | None
    notices: list[str]
    budget: BudgetBand | None
    detail: Detail | None
    events: str
    code: str
    error: str | None
