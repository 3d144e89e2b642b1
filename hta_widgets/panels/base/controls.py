"""Controls that a parameter can be declared with; the front end draws them.

::

    num_kernels: int = parameter(Int(10, min=1), Slider("Kernels", max=100))
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from traitlets import Bool, Float, Int, List, TraitType, Unicode

from hta_widgets.analyses.roofline.vendor import words_of
from hta_widgets.panels.base.protocol import (
    ChoiceSpec,
    Choosable,
    ControlSpec,
    Option,
    PickerSpec,
    SearchSpec,
    SliderSpec,
    ToggleSpec,
)
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank

Traits: TypeAlias = "tuple[type[TraitType[Any, Any]], ...]"
Labels: TypeAlias = Mapping[Any, str]


@dataclass(frozen=True)
class Control(ABC):
    """An element of the panel that sets a trait."""

    traits: ClassVar[Traits]
    """Types of the traits that the control can set."""

    label: str
    """Text next to the control."""

    def check(self, trait: Any) -> None:  # noqa: ANN401
        """Raise a TypeError if the control does not fit the trait."""
        if not isinstance(trait, self.traits):
            known = " or ".join(known.__name__ for known in self.traits)
            self._refuse(f"sets a trait of type {known}, not {type(trait).__name__}")

    def applies_to(self, job: Job) -> bool:  # noqa: ARG002
        """Whether there is anything to set for a job."""
        return True

    @abstractmethod
    def spec(self, name: str, trait: Any, job: Job) -> ControlSpec:  # noqa: ANN401
        """Describe the control of a trait to the front end, for a job."""

    def _refuse(self, reason: str) -> NoReturn:
        msg = f"{type(self).__name__}({self.label!r}) {reason}"
        raise TypeError(msg)


@dataclass(frozen=True)
class Slider(Control):
    """A slider with a number field next to it, for a trait with at least a lower bound."""

    traits: ClassVar[Traits] = (Int, Float)

    step: float = 1
    """Smallest change; if it is an integer, so are the numbers."""
    unit: str = ""
    """Text after the field."""
    max: float | None = None
    """End of the slider if the trait has no upper bound; the field accepts larger numbers."""
    log: bool = False
    """Logarithmic scale; the trait's lower bound must be positive."""

    def check(self, trait: Any) -> None:  # noqa: ANN401
        """Raise a TypeError if the slider lacks a start or end, or is logarithmic from 0."""
        super().check(trait)
        if _bound(trait.min) is None:
            self._refuse("needs a trait with a lower bound, such as min=0")
        if (self.max is None) == (_bound(trait.max) is None):
            self._refuse("needs max=, unless the trait has an upper bound; never both")
        if self.log and trait.min <= 0:
            self._refuse("is logarithmic and needs a trait with a lower bound above 0")

    def spec(self, name: str, trait: Any, job: Job) -> SliderSpec:  # noqa: ANN401, ARG002
        """Describe the slider."""
        return SliderSpec(
            kind="slider",
            name=name,
            label=self.label,
            min=trait.min,
            max=trait.max if self.max is None else self.max,
            step=self.step,
            unit=self.unit,
            log=self.log,
            open_ended=_bound(trait.max) is None,
        )


@dataclass(frozen=True)
class Choice(Control):
    """One of a few values."""

    traits: ClassVar[Traits] = (LabelledEnum, Bool, Unicode, Int)

    labels: Labels | Callable[[Job], Labels] | None = None
    """Label of each value, or a function that finds them in the job.

    A `LabelledEnum` has its own labels; a `Bool` needs labels for True and False; a `Unicode` or an
    `Int` needs a function.
    """
    of_charts: bool = False
    """Whether it only changes charts; it is then hidden without charts, such as for one rank."""
    of_gpu_work: bool = False
    """Whether it leaves nothing to choose without GPU work; it is then left out."""

    def check(self, trait: Any) -> None:  # noqa: ANN401
        """Raise a TypeError if labels are missing or are not for the values of the trait."""
        super().check(trait)
        if isinstance(trait, LabelledEnum) and self.labels is not None:
            self._refuse("takes no labels: the trait has its own")
        both = isinstance(self.labels, Mapping) and self.labels.keys() == {True, False}
        if isinstance(trait, Bool) and not both:
            self._refuse("needs labels for True and False")
        if isinstance(trait, (Unicode, Int)) and not callable(self.labels):
            self._refuse("needs a function that finds the labels in a job; or use a LabelledEnum")

    def applies_to(self, job: Job) -> bool:
        """Whether a job has GPU work, if that is what there is to choose."""
        return not self.of_gpu_work or job.has_gpu_work()

    def spec(self, name: str, trait: Any, job: Job) -> ChoiceSpec:  # noqa: ANN401
        """Describe the choice between the values that occur in the job."""
        labels = self.labels(job) if callable(self.labels) else self.labels or trait.labels
        words = words_of(job)
        options: list[tuple[str, Choosable]] = [
            (words(label), value) for value, label in labels.items()
        ]
        spec = ChoiceSpec(kind="choice", name=name, label=self.label, options=options)
        return {**spec, "of_charts": True} if self.of_charts else spec


@dataclass(frozen=True)
class Toggle(Control):
    """A check box."""

    traits: ClassVar[Traits] = (Bool,)

    def spec(self, name: str, trait: Any, job: Job) -> ToggleSpec:  # noqa: ANN401, ARG002
        """Describe the check box."""
        return ToggleSpec(kind="toggle", name=name, label=self.label)


@dataclass(frozen=True)
class Search(Control):
    """One of many values, found by typing parts of its label."""

    traits: ClassVar[Traits] = (Unicode,)

    options: Callable[[Job], Sequence[Option]]
    """Labels, values and details, such as ``12.3 ms, 48 calls``, which follow the labels."""
    free_text: bool = False
    """Whether the typed text itself can be chosen."""

    def spec(self, name: str, trait: Any, job: Job) -> SearchSpec:  # noqa: ANN401, ARG002
        """Describe the field and the values in the job."""
        return SearchSpec(
            kind="search",
            name=name,
            label=self.label,
            options=list(self.options(job)),
            free_text=self.free_text,
        )


@dataclass(frozen=True)
class Picker(Control):
    """Picks integers; an empty list means all of them."""

    traits: ClassVar[Traits] = (List,)

    noun: str
    """What the integers count, such as ``rank``."""
    options: Callable[[Job], list[int]]

    def spec(self, name: str, trait: Any, job: Job) -> PickerSpec:  # noqa: ANN401, ARG002
        """Describe the picker and the integers of the job."""
        return PickerSpec(
            kind="picker", name=name, label=self.label, noun=self.noun, options=self.options(job)
        )


def _bound(bound: float | None) -> float | None:
    """Bound of a trait; an unbounded `Int` has None, an unbounded `Float` infinity."""
    return None if bound is None or math.isinf(bound) else bound


def streams_of(job: Job) -> list[int]:
    """Streams with GPU work on any rank of the job, ascending."""
    by_rank = job.reduce(_streams_of, job.ranks).values()
    return sorted(set[int]().union(*by_rank))


def _streams_of(rank: Rank) -> list[int]:
    streams: list[int] = np.unique(rank.gpu_work.stream).tolist()
    return streams


RANK_PICKER = Picker("Ranks", "rank", lambda job: list(job.ranks))
"""Control for the trait `ranks`."""

STREAM_PICKER = Picker("Streams", "stream", streams_of)
"""Control for the trait `streams`."""

ONE_RANK = Choice("Rank", lambda job: {rank: str(rank) for rank in job.ranks})
"""Control for a trait `rank` of a panel that shows one rank."""

SHARE_OR_TIME = Choice("Show", {True: "Share", False: "Time"}, of_charts=True)
"""Control for a trait `as_percent`."""
