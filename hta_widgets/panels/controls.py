"""The controls that a panel can have; what they look like is up to the front end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

from hta_widgets.trace.job import Job

Options: TypeAlias = Sequence[tuple[str, str | float]]


@dataclass(frozen=True)
class Control:
    """A control of the parameter `name`, labelled for the reader."""

    kind: ClassVar[str]

    name: str
    label: str

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
class RankPicker(Control):
    """Picks the ranks of the selection."""

    kind: ClassVar[str] = "ranks"

    name: str = "ranks"
    label: str = "Ranks"

    def spec(self, job: Job) -> dict[str, Any]:
        """Name, label and the ranks of the job."""
        return {**super().spec(job), "options": list(job.ranks)}


SHARE_OR_TIME = Choice("as_percent", "Show", (("Share", True), ("Time", False)))
"""For parameters `as_percent`."""
