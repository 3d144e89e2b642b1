"""JSON messages between panels and the browser; js/src/types.ts has the same interfaces.

A test compares the two.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict


class TraceMeta(TypedDict, total=False):
    """The field of the selection that a click on a trace sets."""

    select: str


class Trace(TypedDict, total=False):
    """The attributes of a plotly trace that the front end reads itself."""

    type: str
    meta: TraceMeta
    customdata: list[list[Any]]


class LayoutMeta(TypedDict, total=False):
    """The parameter that a zoom sets."""

    zoom: str


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


class Column(TypedDict):
    """Heading of a table column."""

    label: str
    align: Literal["left", "right"]


class Table(TypedDict):
    """The first rows of a table as text, and the total number of rows."""

    columns: list[Column]
    rows: list[list[str]]
    total: int


class View(TypedDict):
    """Everything that a panel shows, in answer to request `rev`."""

    rev: int
    finding: str
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


class ChoiceSpec(Named):
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
    """A button that calls a method."""

    kind: Literal["button"]


class PickerSpec(Named):
    """Check boxes for integers; the noun is what they number, such as ``rank``."""

    kind: Literal["picker"]
    noun: str
    options: list[int]


ControlSpec: TypeAlias = (
    SliderSpec | NumberSpec | ChoiceSpec | ToggleSpec | SearchSpec | ButtonSpec | PickerSpec
)


class PanelSpec(TypedDict):
    """Everything that does not change while a panel is open; a wide one takes a whole row."""

    title: str
    wide: bool
    controls: list[ControlSpec]


class Action(TypedDict, total=False):
    """Request of a button: the name of a method, with a new number each time."""

    name: str
    number: int


class Answer(TypedDict, total=False):
    """Outcome of the action with that number."""

    number: int
    text: str
    failed: bool
