"""A cause of lost time, as its rule declares it; every list of causes is built from these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from hta_widgets.analyses.budget.classes import BUDGET
from hta_widgets.diagnosis.finding import Advice, Finding
from hta_widgets.diagnosis.limits import Limits


@dataclass(frozen=True, eq=False)
class Cause:
    """A cause of lost time; calling it runs its rule."""

    look: Callable[[Any], Finding | None]
    """The rule: from a `Context` to a `Finding`, or to None."""
    seen_in: str
    """Name of the `BUDGET` class that counts the lost time."""
    when: str
    """When it is reported, in a sentence or two for a table of the docs; its page has more."""
    limit: str
    """Field of `Limits`: the smallest share of the mean step that is reported."""
    makes_others_wait: bool
    """Whether it makes the stages of a pipeline wait longer for each other."""
    advice: tuple[Advice, ...]
    """What you can do about it, the most concrete first."""

    def __post_init__(self) -> None:
        """Reject a wrong name, which nothing else would notice."""
        for value, known in (
            (self.seen_in, [each.name for each in BUDGET]),
            (self.limit, [each.name for each in fields(Limits)]),
        ):
            if value not in known:
                msg = f"{self.name} names {value!r}, which is none of {', '.join(known)}"
                raise ValueError(msg)

    @property
    def name(self) -> str:
        """What findings call it: the name of its rule."""
        return self.look.__name__

    def __call__(self, context: Any) -> Finding | None:  # noqa: ANN401  # a Context, which knows causes
        """Look for it."""
        return self.look(context)


def cause(
    *,
    seen_in: str,
    when: str,
    advice: tuple[Advice, ...],
    limit: str = "least_percent",
    makes_others_wait: bool = False,
) -> Callable[[Callable[[Any], Finding | None]], Cause]:
    """Declare a function as the rule of a cause; see `Cause`."""
    return lambda look: Cause(look, seen_in, when, limit, makes_others_wait, advice)
