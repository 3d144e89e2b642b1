"""JSON messages between panels and the browser.

js/src/types.ts declares the same interfaces, and a test compares the two.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

from hta_widgets.figures.base import style

Fill: TypeAlias = style.Fill


class TraceMeta(TypedDict, total=False):
    """The field of the selection that a click on a trace sets, and one that it also sets.

    `sets` names a parameter of the panel that the click sets instead.
    """

    select: str
    also: str
    sets: str


class Trace(TypedDict, total=False):
    """The attributes of a plotly trace that the front end reads itself."""

    type: str
    meta: TraceMeta
    customdata: list[list[Any]]


class LegendEntry(TypedDict):
    """A label, and the look of the area it stands for."""

    label: str
    color: str
    fill: Fill


class LayoutMeta(TypedDict, total=False):
    """Instructions to the front end on how to show a figure.

    `zoom` is the parameter that a zoom sets. A `wide` figure takes a whole row; a figure with a
    `least_width` (px) does so where the others leave it less. A `legend` is drawn above the chart
    instead of plotly's, and `height` is then the height of the chart.
    """

    zoom: str
    wide: bool
    least_width: float
    legend: list[LegendEntry]
    height: float


class Layout(TypedDict, total=False):
    """The attributes of a plotly layout that the front end reads itself."""

    height: float
    meta: LayoutMeta
    xaxis: dict[str, Any]


class Figure(TypedDict):
    """A figure as plotly's JSON, and its caption."""

    name: str
    data: list[Trace]
    layout: Layout


Cell: TypeAlias = str | float | bool | None
"""A value of a table."""


class Column(TypedDict):
    """A column of a table.

    `name` is the column's name in Python. A value is shown divided by `scale`, in `unit`; the kind
    ``id`` is for numbers that count nothing. `select` is the field of the selection that its values
    set, or empty, and `besides` lists texts that cannot be selected.
    """

    name: str
    label: str
    unit: str
    scale: float
    kind: Literal["text", "number", "id"]
    select: str
    besides: list[str]


class Table(TypedDict):
    """The first rows of a table, and the total number of rows.

    `names` maps long texts, such as names of kernels, to what is shown instead.
    """

    columns: list[Column]
    rows: list[list[Cell]]
    total: int
    names: dict[str, str]


class Numbers(TypedDict):
    """Numbers behind a finding: a text with its unit, or a table."""

    label: str
    text: str
    table: Table | None


class Occurrence(TypedDict):
    """A window in which a finding is seen.

    `fields` are the selection values that show it, in addition to those of its row; `words` say how
    many of the finding's intervals the window shows, and how much time they hold.
    """

    fields: dict[str, Any]
    words: str


class AdviceRow(TypedDict):
    """What to do, in one sentence, and code to copy, if any."""

    do: str
    code: str


class FindingRow(TypedDict):
    """One cause of lost time.

    `price` and its `percent` of a step are empty if unknown; `bound` is ≤ or ≥ if the price is an
    upper or a lower bound. `sentence` is the whole finding, `cause` the same without the price.
    `share` is the length of the bar, from 0 to 1; `color` and `fill` are its look. The first
    `advice` is the one to try first. `doubt` says what the trace leaves open. `show` holds the
    values to select, in the selection of the second of two jobs if `of_second`, or None if there
    is nothing to select. `panel` is the analysis that shows the finding, or empty. The first of the
    `occurrences` is selected together with `show`. A folded row is shown on demand.
    """

    price: str
    bound: str
    percent: str
    share: float
    color: str
    fill: Fill
    sentence: str
    cause: str
    doubt: str
    advice: list[AdviceRow]
    numbers: list[Numbers]
    show: dict[str, Any] | None
    of_second: bool
    occurrences: list[Occurrence]
    panel: str
    folded: bool


class View(TypedDict):
    """Everything a panel shows, in answer to request `rev`.

    `time` names the time it counts, such as ``steps 11, 13``; empty means all. Rows of findings
    follow the sentence, or replace it if it is the sentence of one of them.
    """

    rev: int
    time: str
    finding: str
    findings: list[FindingRow]
    findings_title: str
    notices: list[str]
    empty: str | None
    error: str | None
    figures: list[Figure]
    table: Table | None


class Named(TypedDict):
    """The parameter or method behind a control, and its label."""

    name: str
    label: str


class SliderSpec(Named):
    """A slider with a number field; if it is open-ended, the field accepts larger numbers."""

    kind: Literal["slider"]
    min: float
    max: float
    step: float
    unit: str
    log: bool
    open_ended: bool


Choosable: TypeAlias = str | float | bool


class OfCharts(TypedDict, total=False):
    """A control that is hidden where there is no chart."""

    of_charts: bool


class ChoiceSpec(Named, OfCharts):
    """Radio buttons, or a menu if there are many options; each has a label and a value."""

    kind: Literal["choice"]
    options: list[tuple[str, Choosable]]


class ToggleSpec(Named):
    """A check box."""

    kind: Literal["toggle"]


Option: TypeAlias = tuple[str, str, str]
"""Label, value, and a detail that follows the label."""


class SearchSpec(Named):
    """A combobox; with `free_text`, the typed text itself can be chosen."""

    kind: Literal["search"]
    options: list[Option]
    free_text: bool


class ButtonSpec(Named):
    """A button that calls a method, and whether it accepts a folder."""

    kind: Literal["button"]
    takes_folder: bool


class PickerSpec(Named):
    """Check boxes for integers; the noun is what they count, such as ``rank``."""

    kind: Literal["picker"]
    noun: str
    options: list[int]


ControlSpec: TypeAlias = SliderSpec | ChoiceSpec | ToggleSpec | SearchSpec | ButtonSpec | PickerSpec


class PanelSpec(TypedDict):
    """Everything that does not change while a panel is open.

    `open` says whether the table is shown next to the chart from the start.
    """

    title: str
    open: bool
    controls: list[ControlSpec]


Activity: TypeAlias = Literal["idle", "computing", "interrupted"]
"""What a panel is doing while its view lags behind its parameters; idle when up to date."""


class Action(TypedDict, total=False):
    """Request from a button: the name of a method, with a new number each time.

    `folder` is where it writes; empty means the usual place.
    """

    name: str
    number: int
    folder: str


class Answer(TypedDict, total=False):
    """Outcome of the action with this number, and the names of the files it wrote."""

    number: int
    text: str
    failed: bool
    files: list[str]
