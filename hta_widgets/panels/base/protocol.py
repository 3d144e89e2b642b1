"""JSON messages between panels and the browser; js/src/types.ts has the same interfaces.

A test compares the two.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

from hta_widgets.figures.base import style

Fill: TypeAlias = style.Fill


class TraceMeta(TypedDict, total=False):
    """The field of the selection that a click on a trace sets, and one that it sets with it.

    `sets` is a parameter of the panel that it sets instead.
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
    """A label, and what the area that it names looks like."""

    label: str
    color: str
    fill: Fill


class LayoutMeta(TypedDict, total=False):
    """What the front end does with a figure.

    `zoom` is the parameter that a zoom sets; a `wide` figure takes a whole row, and one with a
    `least_width` (px) where others leave it less. A `legend` is drawn above the chart in the place
    of plotly's, and `height` is that of the chart then.
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

    `name` is that in Python. A value is shown divided by `scale`, in `unit`; an ``id`` is a number
    that counts nothing. `select` is the field of the selection that its values are for, or empty,
    and `besides` has texts that stand for nothing that could be selected.
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

    `names` has what is shown in place of long texts, such as names of kernels.
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

    `fields` are the values of the selection that show it, beside those of its row; `words` say how
    many of its intervals that shows, and how much it holds.
    """

    fields: dict[str, Any]
    words: str


class AdviceRow(TypedDict):
    """What to do in a sentence, and code to copy, or none."""

    do: str
    code: str


class FindingRow(TypedDict):
    """One cause of lost time.

    `price` and its `percent` of a step are empty where they cannot be told; `bound` is ≤ or ≥ where
    the price is no less or no more. `sentence` says all of it, `cause` the same without the price.
    `share` is the length of its bar, from 0 to 1, and `color` and `fill` are its look. The first
    `advice` is to be tried first. `doubt` is said where the trace does not tell. `show` has the
    values of the fields of the selection that show what it is about, of that of the second of two
    jobs if it is `of_second`; None where there is nothing to select, and `panel` is the analysis
    that shows it, or empty. Of the `occurrences`, the first is
    shown with it. A folded row is shown on demand.
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
    """Everything that a panel shows, in answer to request `rev`.

    `time` names the time that it counts if that is not all, such as ``steps 11, 13``.
    Rows of findings stand below the sentence, or in its place where it is that of one of them.
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


class Bounds(TypedDict):
    """The numbers that a field accepts; a `max` of None means no upper bound."""

    min: float
    max: float | None
    step: float
    unit: str


class NumberSpec(Named, Bounds):
    """A number field."""

    kind: Literal["number"]


class SliderSpec(Named):
    """A slider with a number field, which accepts larger numbers if it is open-ended."""

    kind: Literal["slider"]
    min: float
    max: float
    step: float
    unit: str
    log: bool
    open_ended: bool


Choosable: TypeAlias = str | float | bool


class OfCharts(TypedDict, total=False):
    """A control that is not shown where no chart is."""

    of_charts: bool


class ChoiceSpec(Named, OfCharts):
    """Radio buttons, or a menu if there are many options: label and value of each."""

    kind: Literal["choice"]
    options: list[tuple[str, Choosable]]


class ToggleSpec(Named):
    """A check box."""

    kind: Literal["toggle"]


Option: TypeAlias = tuple[str, str, str]
"""Label, value, and a detail that follows the label."""


class SearchSpec(Named):
    """A combobox; with `free_text`, the typed text can be chosen as well."""

    kind: Literal["search"]
    options: list[Option]
    free_text: bool


class ButtonSpec(Named):
    """A button that calls a method, and whether a folder can be given to it."""

    kind: Literal["button"]
    takes_folder: bool


class PickerSpec(Named):
    """Check boxes for integers; the noun is what they number, such as ``rank``."""

    kind: Literal["picker"]
    noun: str
    options: list[int]


ControlSpec: TypeAlias = (
    SliderSpec | NumberSpec | ChoiceSpec | ToggleSpec | SearchSpec | ButtonSpec | PickerSpec
)


class PanelSpec(TypedDict):
    """Everything that does not change while a panel is open.

    The table of some is `open` beside the chart from the start.
    """

    title: str
    open: bool
    controls: list[ControlSpec]


Activity: TypeAlias = Literal["idle", "computing", "interrupted"]
"""What a panel does while its view is not that of its parameters; idle where it is."""


class Action(TypedDict, total=False):
    """Request of a button: the name of a method, with a new number each time.

    `folder` is where it writes; empty for its usual place.
    """

    name: str
    number: int
    folder: str


class Answer(TypedDict, total=False):
    """Outcome of the action with that number, and the names of the files that it wrote."""

    number: int
    text: str
    failed: bool
    files: list[str]
