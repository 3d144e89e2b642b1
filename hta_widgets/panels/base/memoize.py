"""Memoization of the last value, so that slider steps do not recompute what stays the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

Made = TypeVar("Made")
Arguments = ParamSpec("Arguments")


class MemoizeLast:
    """Keeps the last value of each key until one of its sources changes.

    A source is unchanged if it is the same object, or an equal number, string or tuple.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, tuple[tuple[Any, ...], object]] = {}

    def get(self, key: Hashable, make: Callable[[], Made], *sources: object) -> Made:
        """Return the value of a key, recomputed if its sources have changed."""
        known = self._values.get(key)
        if (
            known is None
            or len(known[0]) != len(sources)
            or not all(map(_unchanged, known[0], sources))
        ):
            known = self._values[key] = sources, make()
        return cast("Made", known[1])

    def call(
        self,
        function: Callable[Arguments, Made],
        /,
        *args: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Made:
        """Return the value of a function, called again if an argument has changed.

        The function is the key, so this keeps one value of it, and a lambda, which is a new object
        each time, needs `get`. Give tuples: an equal list that is another object has changed.
        """
        return self.get(function, partial(function, *args, **named), *args, *named, *named.values())


def _unchanged(before: object, now: object) -> bool:
    return before is now or (isinstance(before, int | float | str | tuple) and before == now)
