"""Traits that panels need in addition to those of traitlets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import anywidget
from traitlets import Dict, Enum, Instance

Value = TypeVar("Value", bound=Hashable)
Message = TypeVar("Message")


if TYPE_CHECKING:
    _TypedEnum = Enum
else:

    class _TypedEnum(Enum, Generic[Value]):
        """Takes a type in brackets, as the `Enum` of traitlets 5.7 does not."""


class LabelledEnum(_TypedEnum[Value]):
    """One of a few values, each with a label; the first is the default.

    Parameters
    ----------
    labels : mapping of value to str
        Label of each value in a `Choice`.

    Examples
    --------
    >>> LabelledEnum({"stream": "Streams", "device": "GPUs"}).default_value
    'stream'
    """

    def __init__(self, labels: Mapping[Value, str]) -> None:
        self.labels = dict(labels)
        values = list(labels)
        super().__init__(values, values[0])


def typed_dict(initial: Message) -> Instance[Message]:
    """Trait of a message whose type is a `TypedDict`."""
    return cast("Instance[Message]", Dict(cast("dict[str, object]", initial)))


def references(widgets: Iterable[anywidget.AnyWidget], _: object) -> list[str]:
    """Refer to widgets as `anywidget.WidgetTrait` does, for a list of them."""
    to_json = anywidget.WidgetTrait().metadata["to_json"]
    return [to_json(widget, None) for widget in widgets]
