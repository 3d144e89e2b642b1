"""What a panel made for the last step, for as long as it would be made of the same things."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

Made = TypeVar("Made")


class Latest:
    """The latest value of each name, made anew only where one of its sources is another.

    A source is the same if it is the same object, or an equal number, text or tuple.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, tuple[tuple[Any, ...], object]] = {}

    def get(self, name: Hashable, make: Callable[[], Made], *sources: object) -> Made:
        """Return what was made last of the same sources; make it where that is something else."""
        known = self._values.get(name)
        if known is None or not all(map(_same, known[0], sources)):
            known = self._values[name] = sources, make()
        return cast("Made", known[1])


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, int | float | str | tuple) and one == other)
