"""Ranks × steps: the numbers that all rules work on, and how long a step takes without a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Final

import numpy as np

from hta_widgets.analyses.budget.device_steps import HOST_GAPS
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.facts.step_facts import STEP_COLUMNS, Columns

Matrix = Float64Array

BUSY: Final = ("compute", "memory", "transfer", "transfer_p2p")
"""Time that the GPU needs, however fast the host is. It excludes communication whose waiting is not
known, which may be nothing but waiting."""

OWN: Final = (*BUSY, *HOST_GAPS)
"""Time that a rank needs itself; in the rest of a step it waits for others."""
_STALLS: Final = ("gap_step", "gap_pause", "gap_alloc", "gap_init")


HALF: Final = 0.5

LEAST_WAITING: Final = 0.01
"""If blocking calls cause a smaller share of its late launches, a host is slow without them. Only
what follows such a call directly counts: 1.3 % where a host was blocked for half of the time."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The analysed steps that all ranks have in common."""

    ranks: tuple[int, ...]
    """Ranks with GPU work."""
    numbers: tuple[int, ...]
    """Numbers of the ProfilerSteps; (-1,) for the GPU span as one step if ranks share none."""
    columns: Mapping[str, Matrix]
    """A matrix for each of `STEP_COLUMNS`; times in ns."""
    phase: str = ""
    """Phase of a server, if steps of other phases are left out; empty for all steps."""

    @classmethod
    def of(
        cls, by_rank: Mapping[int, Columns], asked: Collection[int] | None = None, phase: str = ""
    ) -> Steps:
        """Join the steps of the ranks: all, or those asked for."""
        busy = {rank: facts for rank, facts in by_rank.items() if facts["step"].size}
        common = common_steps(by_rank)
        if asked is not None:
            common &= {*asked}
        numbers = tuple(sorted(common)) or (NO_STEP,)
        rows = [_of_steps(facts, numbers) for facts in busy.values()]
        shape = len(rows), len(numbers)
        columns = {
            name: np.array([row[name] for row in rows], dtype=np.float64).reshape(shape)
            for name in STEP_COLUMNS
        }
        return cls(tuple(busy), numbers, columns, phase)

    def __getitem__(self, column: str) -> Matrix:
        """A column of `columns`."""
        return self.columns[column]

    @property
    def are_recorded(self) -> bool:
        """Whether there are ProfilerSteps."""
        return self.numbers != (NO_STEP,)

    @property
    def marked(self) -> tuple[int, ...]:
        """Numbers of the ProfilerSteps, as analyses take them; empty without any."""
        return self.numbers if self.are_recorded else ()

    @property
    def noun(self) -> str:
        """What costs are counted per, in words."""
        step = f"{self.phase} step" if self.phase else "step"
        return step if self.are_recorded else "GPU span"

    @property
    def per_noun(self) -> str:
        """What to write after a number per mean step, with a leading space."""
        return f" per {self.noun}" if self.are_recorded else ""

    @cached_property
    def period_ns(self) -> float:
        """Length of the mean step of all ranks, which the budget adds up to."""
        return float(self["period"].mean()) if self["period"].size else 0.0

    @cached_property
    def median_period_ns(self) -> float:
        """Length of the mean step of the median rank, which limits are shares of."""
        return float(np.median(self["period"].mean(axis=1))) if self["period"].size else 0.0

    @cached_property
    def own(self) -> Matrix:
        """Time that each rank needs itself in each step."""
        return np.asarray(sum(self[name] for name in OWN))

    @cached_property
    def late_launching(self) -> Matrix:
        """Time in which the GPU waits for a host that launches too slowly, also after waiting."""
        return self["gap_sync"] + self["gap_op"]

    @cached_property
    def launch_bound(self) -> Matrix:
        """Part of `late_launching` that remains if the host never waits.

        A step then takes the longer of what its host and its GPU need: after a single wait, a slow
        host stays behind for many kernels, and this is not the price of the wait. If the host needs
        even longer, it launches so many short kernels that their starts count too.
        """
        behind = np.clip(self._host_surplus, 0, self.late_launching)
        waits = self["gap_sync"] >= LEAST_WAITING * self.late_launching
        late = np.where(waits, behind, self.late_launching)
        rest = self._host_surplus - self.late_launching
        return np.asarray(late + np.clip(rest, 0, self["starting"]))

    @cached_property
    def starts_count(self) -> bool:
        """Whether hosts need so long that the starts of many short kernels count too."""
        return bool(np.median((self.launch_bound > self.late_launching).mean(axis=1)) > HALF)

    @property
    def refill(self) -> Matrix:
        """Part of `late_launching` that blocking calls cost: the GPU runs dry, and is refilled."""
        return np.asarray(np.maximum(self.late_launching - self.launch_bound, 0))

    @cached_property
    def host_behind(self) -> Matrix:
        """How much longer each host needs than its GPU; at least the time of late launches."""
        return np.maximum(self["gap_op"], self._host_surplus)

    @cached_property
    def _host_surplus(self) -> Matrix:
        """How much more time each host needs than its GPU, without pauses; negative if it is ahead.

        Pauses have causes of their own.
        """
        stalls = sum(self[name] for name in _STALLS)
        busy = sum(self[name] for name in BUSY)
        return np.asarray(self["host"] - stalls - busy)

    def without(self, left_out: Collection[int]) -> Steps:
        """The same without some steps; all of them if none would be left."""
        kept = [place for place, each in enumerate(self.numbers) if each not in left_out]
        if not kept:
            return self
        columns = {name: matrix[:, kept] for name, matrix in self.columns.items()}
        numbers = tuple(self.numbers[place] for place in kept)
        return replace(self, numbers=numbers, columns=columns)

    def of_ranks(self, chosen: Collection[int]) -> Steps:
        """The same for some ranks only."""
        kept = [place for place, rank in enumerate(self.ranks) if rank in chosen]
        columns = {name: matrix[kept] for name, matrix in self.columns.items()}
        return replace(self, ranks=tuple(self.ranks[place] for place in kept), columns=columns)

    def gain_ns(self, removed: Matrix) -> float:
        """How much shorter the mean step is if the ranks need less time (ns) of their own.

        All ranks wait for the one that needs the most, so only the maximum of each step counts.
        """
        if not removed.size:
            return 0.0
        before, after = self.own.max(axis=0), (self.own - removed).max(axis=0)
        return float((before - after).mean())


def common_steps(by_rank: Mapping[int, Columns]) -> set[int]:
    """Numbers of the steps that all ranks with GPU work have, by their `step_facts`."""
    sets = [{*facts["step"].tolist()} for facts in by_rank.values() if facts["step"].size]
    return reduce(set.intersection, sets) if sets else set()


def _of_steps(facts: Columns, numbers: tuple[int, ...]) -> Columns:
    """Rows of these steps; the sum of all rows if there are no steps."""
    if numbers == (NO_STEP,):
        return {name: column.sum(keepdims=True) for name, column in facts.items()}
    place = {number: row for row, number in enumerate(facts["step"].tolist())}
    rows = [place[number] for number in numbers]
    return {name: column[rows] for name, column in facts.items()}


def compared_ranks(by_rank: Mapping[int, Columns]) -> tuple[int, ...]:
    """Ranks with GPU work that have a step in common, or most of them if not all have one.

    A rank without steps is analysed as a whole, the others without their last step: next to
    them, it would seem to compute longer. If all ranks have steps, but no two have the same, they
    number their steps differently, and are compared as whole recordings.

    Examples
    --------
    >>> import numpy as np
    >>> steps = {0: [3, 4], 1: [3, 4], 2: [-1], 3: []}
    >>> compared_ranks({rank: {"step": np.array(each)} for rank, each in steps.items()})
    (0, 1)
    """
    sets = {rank: {*facts["step"].tolist()} for rank, facts in by_rank.items()}
    busy = {rank: numbers for rank, numbers in sets.items() if numbers}
    having = Counter(number for numbers in busy.values() for number in numbers)
    if not having or (having.most_common(1)[0][1] == 1 and NO_STEP not in having):
        return tuple(busy)
    common = max(having, key=lambda number: (having[number], number))
    return tuple(rank for rank, numbers in busy.items() if common in numbers)


def usual_own(own: Matrix) -> Float64Array:
    """Own time of the median rank in each step, or of the faster of two ranks."""
    is_pair = len(own) == 2  # noqa: PLR2004
    return np.asarray(own.min(axis=0) if is_pair else np.median(own, axis=0))
