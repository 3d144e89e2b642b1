"""Traits that panels need beyond those of traitlets."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args

import anywidget
from traitlets import Dict, Enum, Instance, TraitError, Tuple

Value = TypeVar("Value", bound=Hashable)
Message = TypeVar("Message")

LIMIT = 2**62
"""Below this limit, times and their differences fit into int64."""


if TYPE_CHECKING:
    _TypedEnum = Enum
else:

    class _TypedEnum(Enum, Generic[Value]):
        """Accepts a type in brackets, unlike the `Enum` of traitlets 5.7."""


class LabelledEnum(_TypedEnum[Value]):
    """One of a few values, each with the label that a `Choice` shows; the first is the default.

    Examples
    --------
    >>> LabelledEnum({"stream": "Streams", "device": "GPUs"}).default_value
    'stream'
    """

    def __init__(self, labels: Mapping[Value, str]) -> None:
        self.labels = dict(labels)
        values = list(labels)
        super().__init__(values, values[0])


class Integers(Tuple):
    """A tuple of integers of any length; accepts lists and NumPy integers.

    Examples
    --------
    >>> Integers().validate(None, [3, 1])
    (3, 1)
    """

    def validate(self, obj: Any, value: Any) -> tuple[int, ...] | None:  # noqa: ANN401
        """Turn the items into `int`."""
        items = super().validate(obj, value)
        if items is None:
            return None
        try:
            integers = tuple(map(operator.index, items))
        except TypeError:
            integers = None
        if integers is None or any(isinstance(item, bool) for item in items):
            msg = f"{self.name} must be whole numbers, got {value!r}"
            raise TraitError(msg)
        if any(abs(each) >= LIMIT for each in integers):
            msg = f"{self.name} must be smaller than 2**62"
            raise TraitError(msg)
        return integers


class Texts(Tuple):
    """A tuple of texts of any length; accepts lists.

    Examples
    --------
    >>> Texts().validate(None, ["aten::mm"])
    ('aten::mm',)
    """

    def validate(self, obj: Any, value: Any) -> tuple[str, ...] | None:  # noqa: ANN401
        """Return the items as a tuple; all must be texts."""
        items = super().validate(obj, value)
        if items is not None and not all(isinstance(item, str) for item in items):
            msg = f"{self.name} must be texts, got {value!r}"
            raise TraitError(msg)
        return None if items is None else tuple(items)


def literal(values: object) -> Enum[Any]:
    """Trait that holds one of the values of a `Literal`; the first is the default."""
    every = get_args(values)
    return Enum(every, every[0])


def typed_dict(initial: Message) -> Instance[Message]:
    """Trait that holds a message whose type is a `TypedDict`."""
    return cast("Instance[Message]", Dict(cast("dict[str, object]", initial)))


def references(widgets: Iterable[anywidget.AnyWidget], _: object) -> list[str]:
    """References to a list of widgets, as `anywidget.WidgetTrait` makes them for one."""
    to_json = anywidget.WidgetTrait().metadata["to_json"]
    return [to_json(widget, None) for widget in widgets]
