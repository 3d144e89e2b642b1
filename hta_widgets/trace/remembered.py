"""What was derived from ranks, kept as long as the ranks are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

Built = TypeVar("Built")


class Remembered:
    """Values by key; each goes with the first of the ranks that it was built from.

    Which ranks those are is observed: they are touched while the value is built.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, object] = {}
        self._ranks: dict[Hashable, set[int]] = {}
        self._building: list[tuple[set[int], set[int]]] = []

    def get(self, key: Hashable, build: Callable[[], Built]) -> Built:
        """Return the value of the key; build it where there is none."""
        if key in self._values:
            self.touch(*self._ranks[key])
            return cast("Built", self._values[key])
        touched, forgotten = set[int](), set[int]()
        self._building.append((touched, forgotten))
        try:
            value = build()
        finally:
            self._building.pop()
        self.touch(*touched)
        if not touched & forgotten:
            self._values[key], self._ranks[key] = value, touched
        return value

    def touch(self, *ranks: int) -> None:
        """Note that what is being built depends on these ranks."""
        for touched, _ in self._building:
            touched.update(ranks)

    def forget(self, rank: int) -> None:
        """Let go of all that was built from a rank."""
        for _, forgotten in self._building:
            forgotten.add(rank)
        for key in [key for key, ranks in self._ranks.items() if rank in ranks]:
            del self._values[key], self._ranks[key]
