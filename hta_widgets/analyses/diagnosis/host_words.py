"""Phrases that the sentences on hosts share."""

from __future__ import annotations

from typing import NamedTuple

from hta_widgets.analyses.diagnosis.context import Context
from hta_widgets.errors import number_ranges
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import number

NAME_WIDTH = 40

_MOST_RANGES = 3


class Subject(NamedTuple):
    """Who causes something, as the first words of a sentence."""

    name: str
    is_plural: bool

    def __str__(self) -> str:
        """The first words."""
        return self.name

    def verb(self, stem: str) -> str:
        """The verb that follows; of regular verbs, the form without an s is given."""
        if self.is_plural:
            return stem
        return f"{stem}es" if stem.endswith(("ch", "s", "sh")) else f"{stem}s"


def subject(context: Context, ranks: tuple[int, ...]) -> Subject:
    """Name the ranks; the host where there is only one, and nobody if it changes."""
    if len(context.ranks) == 1:
        return Subject("The host", is_plural=False)
    if not ranks:
        return Subject("Another rank in each step", is_plural=False)
    if len(ranks) == len(context.ranks):
        return Subject("All ranks", is_plural=True)
    if len(ranks) == 1:
        return Subject(f"Rank {ranks[0]}", is_plural=False)
    return Subject(f"Ranks {few_ranges(ranks)}", is_plural=True)


def in_steps(context: Context, steps: tuple[int, ...]) -> str:
    """Name the steps, unless it is all of them or there are none.

    With a space before it.
    """
    if not steps or len(steps) == len(context.steps.numbers):
        return ""
    return f" in {'step' if len(steps) == 1 else 'steps'} {few_ranges(steps)}"


def per_step(context: Context, count: float, noun: str) -> str:
    """How many there are in each step, in words."""
    text = number(count)
    return f"{text} {noun if text == '1' else f'{noun}s'}{context.steps.per_noun}"


def named(name: str, width: int = NAME_WIDTH) -> str:
    """A name of the trace, shortened."""
    return short_name(name, width)


def few_ranges(numbers: tuple[int, ...]) -> str:
    """Ranges of numbers; how many more there are instead of many ranges."""
    ranges = number_ranges(numbers).split(", ")
    if len(ranges) <= _MOST_RANGES:
        return ", ".join(ranges)
    return f"{', '.join(ranges[:_MOST_RANGES])}, … ({len(numbers)} in all)"
