"""What travels from a dashboard to its page; js/src/dashboard/types.ts has the same types.

A test compares the two.
"""

from __future__ import annotations

from typing import Any, TypedDict

from hta_widgets.panels.base.protocol import FindingRow, Numbers


class Tab(TypedDict):
    """A tab of a dashboard: the places of its panels among all, its main one first."""

    name: str
    label: str
    panels: list[int]


class BoardSpec(TypedDict):
    """The parts of a dashboard; a second job brings more of them.

    `names` are those of the panels behind the first, which is the header, `titles` their headings,
    and `follows` the fields of the selected time that each counts. `timeline` and `what_if` are the
    places of these panels, if there are such. `cycles` are all cycles of the job in words, none if
    it has only one, and `cycle` is the place of the one that is shown.
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

    `share` and `all_share` are parts of the longer of the two bars, from 0 to 1. A click sets
    `show` in the selection, if that is something, and opens the tab.
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
    """Where a step goes, of what is selected; `compared` where that is not everything.

    `behind` says what stands behind it then.
    """

    title: str
    whose: str
    compared: bool
    behind: str
    parts: list[BudgetPart]


class Fact(TypedDict):
    """A number with its unit, and what it is."""

    label: str
    text: str


class RankBar(TypedDict):
    """A bar of a rank; `share` is its length, from 0 to 1."""

    rank: int
    text: str
    share: float


class Detail(TypedDict):
    """What is known of the one thing that is selected, which is read by its `label`.

    `place` is that of the event that the window shows among `count` of them, from 1; 0 where it
    shows none.
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
    """What a dashboard shows above its tabs; not `ready` until it is computed.

    `everything` stands in place of chips where nothing is selected.
    `replayed` are the places of the findings that can be ticked, to be taken out together;
    where the GPU sets the pace, `to_try` is what else can be done, and where they bring little,
    `kernels` are those with most time. `notices` are those on the verdict; what is noticed of the
    job is not among them.
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
