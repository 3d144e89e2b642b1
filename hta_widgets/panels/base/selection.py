"""The selection that the panels of one job share.

A click in any panel sets a field, and every panel that follows this field shows it. Changes are
complete before the first panel computes, so that each computes once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypedDict
from weakref import WeakKeyDictionary, finalize

from traitlets import Int, List, TraitError, Unicode, validate

from hta_widgets.analyses.server_steps import SERVED_PHASES, steps_in_phase
from hta_widgets.analyses.time.modules import PHASES
from hta_widgets.errors import UnknownRankError, UnknownStepError
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.panels.base.assets import SharedModel
from hta_widgets.panels.base.traits import Integers, Texts
from hta_widgets.panels.base.updates import UPDATES
from hta_widgets.quantities import named_numbers, stretch
from hta_widgets.trace.job import Job

LINKED_FIELDS: Final = ("ranks", "streams")
"""Fields that a panel shares with its selection if it has a parameter of that name."""

TIME_FIELDS: Final = ("steps", "phase", "window_ns")
"""Fields that limit the time that a panel counts."""

MODULE_SEPARATOR: Final = " › "

MOST_KEPT: Final = 100
"""Number of changes that can be undone."""

_MOST_NAMES, _MOST_NUMBERS, _MOST_OF_NAME = 5, 60, 200
"""Limits in `plain_selection`: names and numbers per field, and characters of a name."""

_NOTHING: Final[tuple[Any, ...]] = ([], (), "", None)

_SHOWN: Final = (
    *LINKED_FIELDS,
    *("kernel", "operators", "shapes", "modules", "phase", "steps", "window_ns", "finding"),
)


class SelectedTime(TypedDict):
    """The arguments of an analysis that limit the time it counts."""

    steps: tuple[int, ...]
    window_ns: tuple[int, ...] | None


class Follower(Protocol):
    """A listener that a selection notifies of changes."""

    def _selection_changed(self, name: str) -> None:
        """Take over a field of the selection."""


def _no_field(names: str) -> str:
    return f"a selection has no field {names}; it has {', '.join(_SHOWN)}"


class Selection(SharedModel):
    """Selected ranks, streams, kernel and time, shared by the panels of one job.

    Attributes
    ----------
    is_on_page : bool
        Whether a browser has reported that it shows a panel, or has stopped showing it.

    Examples
    --------
    >>> selection = Selection(ranks=[3, 0])
    >>> selection.ranks
    [0, 3]

    Set several fields at once, so that each panel computes only once:

    >>> with selection.hold():
    ...     selection.steps = (11, 13)
    ...     selection.window_ns = (12_400_000, 18_000_000)
    """

    ranks: List[int] = List(Int()).tag(sync=True, echo_update=False)
    """Selected ranks, ascending; an empty list means all. If panels of several jobs share the
    selection, each rank must be one of any of these jobs."""

    streams: List[int] = List(Int()).tag(sync=True, echo_update=False)
    """Selected streams, ascending; an empty list means all."""

    kernel = Unicode().tag(sync=True, echo_update=False)
    """Full name of the selected kernel; an empty string means none."""

    operators = Texts().tag(sync=True, echo_update=False)
    """Names of the selected operators, sorted; an empty tuple means all."""

    shapes = Texts().tag(sync=True, echo_update=False)
    """Selected input shapes of operators, sorted: one line of JSON each, as in the column
    ``input_dims`` of tables. An empty tuple means all."""

    modules = Texts().tag(sync=True, echo_update=False)
    """Paths of the selected modules, sorted: names from the outermost to the innermost, joined by
    `MODULE_SEPARATOR`. An empty tuple means all."""

    phase = Unicode().tag(sync=True, echo_update=False)
    """Phase that the GPU works for: ``decode``, ``mixed`` or ``prefill`` counts only the steps of a
    server in that phase; ``forward``, ``backward``, ``optimizer`` and ``other`` are phases of code.
    An empty string means all."""

    steps = Integers().tag(sync=True, echo_update=False)
    """Numbers of the selected ProfilerSteps, ascending; an empty tuple means all of the time."""

    window_ns = Integers(default_value=None, allow_none=True).tag(sync=True, echo_update=False)
    """Start and end of the selected time (ns) since the first event of all ranks, on the common
    clock (`analyses.clocks`); None means all of the time. With steps selected too, the overlap."""

    finding = Int(None, allow_none=True, min=0).tag(sync=True, echo_update=False)
    """Position of the selected finding in the job's `Diagnosis`, from 0; the suggestions of what to
    try come after the findings. None means none."""

    is_on_page = False

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse unknown fields: ``selection.rank = 3`` would silently select nothing."""
        if not (name.startswith("_") or hasattr(type(self), name)):
            raise AttributeError(_no_field(name))
        super().__setattr__(name, value)

    def __init__(self, **fields: Any) -> None:  # noqa: ANN401
        self._followers: dict[Follower, None] = {}
        self._settled: dict[str, Any] = {}
        self._before: list[dict[str, Any]] = []
        self._ranks_of_jobs: frozenset[int] | None = None
        super().__init__(**fields)
        self._settled, self._before = self.values(), []

    @classmethod
    def of(cls, job: Job) -> Selection:
        """Return the selection that all panels of a job share by default."""
        selection = _of_job.get(job)
        if selection is None or selection.comm is None:
            selection = _of_job[job] = cls()
            selection.concern(job)
            finalize(job, selection.close).atexit = False
        return selection

    def concern(self, job: Job) -> None:
        """Accept ranks of this job from now on, in addition to those of earlier jobs.

        Other fields may hold values that no rank has, because that is known only for loaded ranks;
        such values select nothing.

        Raises
        ------
        UnknownRankError
            If none of the jobs has one of the selected ranks; nothing changes then.
        """
        ranks = frozenset(job.ranks).union(self._ranks_of_jobs or ())
        if not ranks.issuperset(self.ranks):
            raise UnknownRankError.from_ranks(self.ranks, sorted(ranks))
        self._ranks_of_jobs = ranks

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Names of the fields."""
        inherited = SharedModel.class_trait_names()
        own = (name for name in cls.class_trait_names(sync=True) if name not in inherited)
        return tuple(name for name in own if name[0] != "_")  # anywidget adds some to an instance

    def values(self) -> dict[str, Any]:
        """The values of all fields by name, as plain lists, tuples, texts and integers."""
        values = {name: getattr(self, name) for name in self.fields()}
        return {name: [*each] if isinstance(each, list) else each for name, each in values.items()}

    def to_code(self) -> str:
        """The line of Python that restores this selection in a dashboard called ``dash``.

        Examples
        --------
        >>> Selection(ranks=[3], steps=(11, 13)).to_code()
        'dash.selection.set(ranks=[3], steps=(11, 13))'
        """
        chosen = [f"{name}={value!r}" for name, value in self.chosen(_SHOWN).items()]
        return f"dash.selection.set({', '.join(chosen)})"

    def chosen(self, fields: Iterable[str]) -> dict[str, Any]:
        """Values of those of the given fields that do not select everything."""
        values = self.values()
        return {name: values[name] for name in fields if values[name] not in _NOTHING}

    def set(self, **fields: Any) -> None:  # noqa: ANN401
        """Select exactly this, as one change: fields that are not given select everything.

        Raises
        ------
        TypeError
            If there is no field of that name.
        TraitError
            If a value does not fit its field; nothing changes then.
        """
        unknown = sorted(fields.keys() - {*self.fields()})
        if unknown:
            raise TypeError(_no_field(", ".join(unknown)))
        wanted = Selection.nothing() | fields
        with self.hold(), self.hold_trait_notifications():
            for name, value in wanted.items():
                setattr(self, name, value)

    @classmethod
    def nothing(cls) -> dict[str, Any]:
        """Field values that select everything."""
        return {name: cls.class_traits()[name].default() for name in cls.fields()}

    def undo(self) -> None:
        """Restore what was selected before the last change; does nothing if there was none."""
        if self._before:
            self._settled = self._before.pop()
            self.set(**self._settled)

    def time_of(self, job: Job) -> SelectedTime:
        """The selected time, as arguments of an analysis of the job."""
        return {"steps": self.steps_of(job), "window_ns": self.window_ns}

    def steps_of(self, job: Job) -> tuple[int, ...]:
        """Numbers of the steps that count in the job; an empty tuple means all.

        Raises
        ------
        ParameterError
            If a phase of a server is selected and the job has no steps in it.
        UnknownStepError
            If none of the selected steps is in that phase.
        """
        if not self.served_phase:
            return self.steps
        of_phase = steps_in_phase(job, self.served_phase)
        both = tuple(each for each in of_phase if not self.steps or each in self.steps)
        if not both:
            raise UnknownStepError.from_steps(self.steps, of_phase)
        return both

    @property
    def served_phase(self) -> str:
        """The selected phase of a server; empty if none, or a phase of code, is selected."""
        return self.phase if self.phase in SERVED_PHASES else ""

    @property
    def code_phase(self) -> str:
        """The selected phase of code; empty if none, or a phase of a server, is selected."""
        return self.phase if self.phase in PHASES else ""

    def time_in_words(self, fields: Collection[str] = TIME_FIELDS) -> str:
        """The time that the given fields select, such as ``steps 11, 13``; empty if it is all."""
        words = []
        if self.served_phase and "phase" in fields:
            words.append(f"{self.served_phase} steps")
        if self.steps and "steps" in fields:
            words.append(named_numbers("step", self.steps))
        if self.window_ns is not None and "window_ns" in fields:
            words.append(stretch(*self.window_ns))
        return ", ".join(words)

    def hold(self) -> AbstractContextManager[None]:
        """Set several fields, and have each panel recompute once, when the block ends."""
        return UPDATES.together()

    def join(self, follower: Follower) -> None:
        """Notify a panel of every change from now on."""
        self._followers[follower] = None

    def leave(self, follower: Follower) -> None:
        """Stop notifying a panel of changes."""
        self._followers.pop(follower, None)

    def notify_change(self, change: Any) -> None:  # noqa: ANN401
        """Notify all followers of a change before the first one computes, even after Ctrl-C."""
        with UPDATES.together():
            UPDATES.ask(self)
            try:
                super().notify_change(change)
                self._notify_followers(change["name"])
            except BaseException:
                self._notify_followers(change["name"])
                raise

    def _notify_followers(self, name: str) -> None:
        for follower in list(self._followers):
            follower._selection_changed(name)  # noqa: SLF001

    def _announce(self) -> None:
        """Do nothing: a selection computes nothing, so no newer view is on its way."""

    def _update(self) -> None:
        """Remember the selection before this change, which is now complete."""
        now = self.values()
        if now != self._settled:
            self._before = [*self._before, self._settled][-MOST_KEPT:]
            self._settled = now

    def _tell_interrupted(self) -> None:
        self._update()

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser to all panels that follow the selection.

        Then send the state back, instead of ipywidgets' echo: in Colab, each output has its own
        copy of the selection and drops echoes; ipywidgets 7 sends none.
        """
        with UPDATES.together():
            super().set_state(sync_data)
            named = sync_data if isinstance(sync_data, dict) else {}
            self.send_state([name for name in self.fields() if name in named])

    @validate(*LINKED_FIELDS)
    def _of_jobs(self, proposal: dict[str, Any]) -> list[int]:
        return self.picked(proposal["trait"].name, proposal["value"])

    def picked(self, name: str, values: Iterable[int]) -> list[int]:
        """Distinct values of a linked field, in ascending order.

        Raises
        ------
        TraitError
            If they are ranks, and one of them is in no job.
        """
        chosen, known = sorted(set(values)), self._ranks_of_jobs
        if name == "ranks" and known is not None and not known.issuperset(chosen):
            raise TraitError(str(UnknownRankError.from_ranks(chosen, sorted(known))))
        return chosen

    @validate("steps", "operators", "shapes", "modules")
    def _sorted(self, proposal: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(sorted(set(proposal["value"])))

    @validate("phase")
    def _known_phase(self, proposal: dict[str, Any]) -> str:
        phase: str = proposal["value"]
        known = (*SERVED_PHASES, *PHASES)
        if phase not in ("", *known):
            msg = f"phase must be one of {', '.join(known)}, or empty for all, got {phase!r}"
            raise TraitError(msg)
        return phase

    @validate("window_ns")
    def _with_length(self, proposal: dict[str, Any]) -> tuple[int, ...] | None:
        window: tuple[int, ...] | None = proposal["value"]
        if window is not None and not (len(window) == 2 and window[0] < window[1]):  # noqa: PLR2004
            msg = f"window_ns must be (start, end) with start < end, or None, got {window}"
            raise TraitError(msg)
        return window

    def __repr__(self) -> str:
        """All fields."""
        return f"Selection({', '.join(f'{name}={getattr(self, name)!r}' for name in _SHOWN)})"


def plain_selection(selection: Selection, fields: Iterable[str] = _SHOWN) -> dict[str, Any]:
    """What is selected, as numbers and texts of limited size: about 4,000 characters.

    Long lists are cut after the first items, and ``more`` says how many each leaves out; long names
    are cut in the middle.

    Examples
    --------
    >>> plain_selection(Selection(ranks=[3], window_ns=(0, 5)))
    {'ranks': [3], 'window_ns': [0, 5]}
    """
    plain: dict[str, Any] = {}
    more: dict[str, int] = {}
    for name, value in selection.chosen(fields).items():
        if isinstance(value, str | int):
            plain[name] = _limited(value)
        else:
            most = _MOST_NAMES if isinstance(value[0], str) else _MOST_NUMBERS
            plain[name] = [_limited(each) for each in value[:most]]
            if len(value) > most:
                more[name] = len(value) - most
    return plain | ({"more": more} if more else {})


def _limited(value: str | int) -> str | int:
    return cut_in_the_middle(value, _MOST_OF_NAME) if isinstance(value, str) else value


_of_job: WeakKeyDictionary[Job, Selection] = WeakKeyDictionary()
