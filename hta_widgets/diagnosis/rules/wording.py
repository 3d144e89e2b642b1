"""Phrases that several sentences share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Link
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, number_ranges, percent

LONGEST_LIST = 30
"""Most characters of a list of ranks or steps in a sentence."""

NAME_WIDTH = 40
MODULE_WIDTH = 30
"""Longest name from the trace, and longest module name, in a sentence."""

NEARLY_ALL = 0.995
"""A larger fraction is called all."""

MUCH_MORE = 2
"""How many times its price the GPU work of a cause must be for the part hidden behind the host to
be worth mentioning."""

HALF_OF_COST = 0.5
"""Ranks wait for others if waiting takes at least this fraction of what those cost."""


class Subject(NamedTuple):
    """Who causes something: the first words of a sentence."""

    name: str
    is_plural: bool

    def __str__(self) -> str:
        """The first words."""
        return self.name

    def verb(self, stem: str) -> str:
        """The verb that follows, from its form without an s; for regular verbs only."""
        if self.is_plural:
            return stem
        return f"{stem}es" if stem.endswith(("ch", "s", "sh")) else f"{stem}s"


def subject(context: Context, ranks: tuple[int, ...]) -> Subject:
    """Name the ranks; "the host" if there is only one, and no rank if it changes."""
    if len(context.ranks) == 1:
        return Subject("The host", is_plural=False)
    if not ranks:
        return Subject("A different rank in each step", is_plural=False)
    if len(ranks) == len(context.ranks):
        return Subject("All ranks", is_plural=True)
    if len(ranks) == 1:
        return Subject(f"Rank {ranks[0]}", is_plural=False)
    return Subject(f"Ranks {listed(ranks)}", is_plural=True)


def in_steps(context: Context, steps: tuple[int, ...]) -> str:
    """Name the steps, unless they are all steps or there are none.

    With a space before it.
    """
    if not steps or len(steps) == len(context.steps.numbers):
        return ""
    return f" in {'step' if len(steps) == 1 else 'steps'} {listed(steps)}"


def per_step(context: Context, count: float, noun: str) -> str:
    """Say how many there are in each step."""
    return f"{counted(count, noun)}{context.steps.per_noun}"


def named(name: str, width: int = NAME_WIDTH) -> str:
    """Shorten a name from the trace."""
    return short_name(name, width)


def on_ranks(context: Context, ranks: tuple[int, ...]) -> str:
    """Name the ranks, unless they are all ranks that were opened or the only one that is compared.

    With a space before it.
    """
    if len(context.ranks) == 1:
        return ""
    if not ranks or len(ranks) >= max(len(context.ranks), len(context.health.ranks)):
        return " on all ranks"
    return f" on {which_ranks(ranks)}"


def the_ranks(ranks: tuple[int, ...]) -> str:
    """Name the ranks at the start of a sentence."""
    return which_ranks(ranks).capitalize()


def which_ranks(ranks: tuple[int, ...]) -> str:
    """Name the ranks inside a sentence: ``rank 3``, ``ranks 0-2``."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed(ranks)}"


def listed(numbers: tuple[int, ...]) -> str:
    """List numbers of ranks or steps; only the first few if there are many.

    Examples
    --------
    >>> listed((0, 1, 2, 5)), listed(tuple(range(0, 200, 2)))
    ('0-2 and 5', '0, 2, 4 and 97 others')
    """
    text = number_ranges(numbers)
    if len(text) <= LONGEST_LIST:
        return " and ".join(text.rsplit(", ", 1))
    return f"{', '.join(map(str, numbers[:3]))} and {len(numbers) - 3} others"


def in_n_steps(context: Context, steps: int) -> str:
    """Say in how many of the steps, with a space before it; empty for one step, or without any."""
    every = len(context.steps.numbers)
    if not context.steps.are_recorded or every == 1:
        return ""
    return " in every step" if steps == every else f" in {steps} of {counted(every, 'step')}"


def others_wait(context: Context, ranks: tuple[int, ...], recoverable_ns: float) -> str:
    """Say, after a semicolon, who waits for these ranks, if the others do."""
    others = [place for place, rank in enumerate(context.ranks) if rank not in ranks]
    waiting = context.steps["wait"] + context.steps["wait_p2p"]
    if not others or waiting[others].mean() < HALF_OF_COST * recoverable_ns:
        return ""
    who = "the other waits" if len(others) == 1 else f"the {len(others)} others wait"
    return f"; {who} for {'it' if len(ranks) == 1 else 'them'}"


def part_of_it(part: float) -> str:
    """Say which part of something."""
    return f"{'all' if part >= NEARLY_ALL else percent(100 * part)} of it"


def within_module(
    context: Context, by_rank: Sequence[Mapping[str, int]], whole_ns: int
) -> tuple[str, dict[str, float]]:
    """The module inside which most of some time passes, from `time_by_module` of each rank.

    In words after a comma, and as evidence of the finding; both are empty if none is known.
    """
    total = Counter[str]()
    for times in by_rank:
        total.update(times)
    least_ns = context.limits.owner_percent / 100 * whole_ns
    held = [name for name, ns in total.items() if ns >= least_ns]
    if not held or not whole_ns:
        return "", {}
    innermost = min(reversed(held), key=lambda name: total[name])
    share = total[innermost] / whole_ns
    words = f", {part_of_it(share)} in {short_name(innermost, MODULE_WIDTH)}"
    return words, {"inside_module_percent": 100 * share}


def link_of_kernels(ranks: tuple[int, ...], names: Collection[str]) -> Link:
    """Link to the panel that marks kernels; a kernel is selected only if it is the only one.

    With 28 kernels in 68 ms, the one with the most time did not run at all in the densest window.
    """
    kernel = next(iter(names)) if len(names) == 1 else ""
    return Link(panel="kernel_breakdown", ranks=ranks, kernel=kernel, names=tuple(sorted(names)))
