"""The controls that a panel can have; what they look like is up to the front end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.ranks.rank import Rank

Options: TypeAlias = Sequence[tuple[str, str | float]]
DetailedOptions: TypeAlias = Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Control:
    """A control of the parameter `name`, labelled for the reader."""

    kind: ClassVar[str]

    name: str
    label: str

    def offered(self, job: Job) -> bool:  # noqa: ARG002
        """Tell whether the control does anything for a job."""
        return True

    def spec(self, job: Job) -> dict[str, Any]:  # noqa: ARG002
        """What the front end needs to draw the control for a job."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Number(Control):
    """A field to type a number into.

    Parameters
    ----------
    min, max : float
        Bounds; no upper one for None.
    step : float
        A whole step makes it a whole number.
    unit : str
        Written behind the field.
    """

    kind: ClassVar[str] = "number"

    min: float = 0
    max: float | None = None
    step: float = 1
    unit: str = ""


@dataclass(frozen=True)
class Slider(Number):
    """A slider with a number field beside it.

    Parameters
    ----------
    log : bool
        Equal ways are equal ratios; `min` must be positive.
    open_ended : bool
        The field takes numbers beyond the slider's end.
    """

    kind: ClassVar[str] = "slider"

    max: float = 100
    log: bool = False
    open_ended: bool = False


@dataclass(frozen=True)
class Choice(Control):
    """One of a few values.

    Parameters
    ----------
    options : sequence of (label, value), or function of the job that returns one
    """

    kind: ClassVar[str] = "choice"

    options: Options | Callable[[Job], Options] = ()

    def spec(self, job: Job) -> dict[str, Any]:
        """Name, label and the options of this job."""
        options = self.options(job) if callable(self.options) else self.options
        return {**super().spec(job), "options": [list(option) for option in options]}


@dataclass(frozen=True)
class Toggle(Control):
    """A tick box."""

    kind: ClassVar[str] = "toggle"


@dataclass(frozen=True)
class Search(Control):
    """One of very many values, found by typing parts of its label.

    Parameters
    ----------
    options : sequence of (label, value, detail), or function of the job that returns one
        The detail stands behind the label, such as ``12.3 ms, 48 calls``.
    free_text : bool
        Also offer the text as it was typed.
    """

    kind: ClassVar[str] = "search"

    options: DetailedOptions | Callable[[Job], DetailedOptions] = ()
    free_text: bool = False

    def spec(self, job: Job) -> dict[str, Any]:
        """Name, label and the options of this job."""
        options = self.options(job) if callable(self.options) else self.options
        return {**super().spec(job), "options": [list(option) for option in options]}


@dataclass(frozen=True)
class Button(Control):
    """Calls the method `name` of the panel, which says what it did or returns the files it wrote.

    A browser can call no other methods than those of buttons. They write traces again with
    something added, which only PyTorch-profiler traces can be.
    """

    kind: ClassVar[str] = "button"

    def offered(self, job: Job) -> bool:
        """Tell whether any rank is a trace that can be written again."""
        return any(source.format == KINETO for source in job.sources.values())


@dataclass(frozen=True)
class Picker(Control):
    """Picks some integers: a field of the selection, where an empty list means all.

    Parameters
    ----------
    noun : str
        What each integer is the number of.
    """

    kind: ClassVar[str] = "picker"

    noun: str = ""

    def options(self, job: Job) -> list[int]:
        """Integers to pick from."""
        raise NotImplementedError

    def spec(self, job: Job) -> dict[str, Any]:
        """Name, label, noun and the integers of this job."""
        return {**super().spec(job), "options": self.options(job)}


@dataclass(frozen=True)
class RankPicker(Picker):
    """Picks the ranks of the selection."""

    name: str = "ranks"
    label: str = "Ranks"
    noun: str = "rank"

    def options(self, job: Job) -> list[int]:
        """Ranks of the job."""
        return list(job.ranks)


@dataclass(frozen=True)
class StreamPicker(Picker):
    """Picks the streams of the selection."""

    name: str = "streams"
    label: str = "Streams"
    noun: str = "stream"

    def options(self, job: Job) -> list[int]:
        """Streams on which any rank of the job does GPU work."""
        by_rank = job.reduce("streams", _streams_of, job.ranks).values()
        return sorted(set[int]().union(*by_rank))


def _streams_of(rank: Rank) -> list[int]:
    streams: list[int] = np.unique(rank.gpu_work.stream).tolist()
    return streams


SHARE_OR_TIME = Choice("as_percent", "Show", (("Share", True), ("Time", False)))
"""For parameters `as_percent`."""
