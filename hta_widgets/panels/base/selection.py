"""The selection, shared by the panels of one job."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from traitlets import Int, List, Unicode, validate

from hta_widgets.panels.base.assets import SharedModel
from hta_widgets.panels.base.lock import locked
from hta_widgets.trace.job import Job

LINKED_FIELDS: Final = ("ranks", "streams")
"""Fields that a panel with a parameter of that name shares with its selection."""


class Selection(SharedModel):
    """Selected ranks, streams and kernel, shared by the panels of one job.

    Examples
    --------
    >>> selection = Selection(ranks=[3, 0])
    >>> selection.ranks
    [0, 3]
    """

    ranks: List[int] = List(Int()).tag(sync=True, echo_update=False)
    """Selected ranks, ascending; an empty list means all."""

    streams: List[int] = List(Int()).tag(sync=True, echo_update=False)
    """Selected streams, ascending; an empty list means all."""

    kernel = Unicode().tag(sync=True, echo_update=False)
    """Full name of the selected kernel; an empty string means none."""

    @classmethod
    def of(cls, job: Job) -> Selection:
        """Return the selection that all panels of a job share unless they are given another."""
        selection = _of_job.get(job)
        if selection is None or selection.comm is None:
            selection = _of_job[job] = cls()
        return selection

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Names of the fields."""
        inherited = SharedModel.class_trait_names()
        return tuple(name for name in cls.class_trait_names(sync=True) if name not in inherited)

    @locked
    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser to all panels that follow the selection.

        Then send the state back, in place of ipywidgets' echo: in Colab each output has a
        copy of the selection, and drops echoes, and ipywidgets 7 sends none.
        """
        super().set_state(sync_data)
        self.send_state([name for name in self.fields() if name in sync_data])

    @validate(*LINKED_FIELDS)
    def _ascending(self, proposal: dict[str, Any]) -> list[int]:
        return ascending(proposal["value"])

    def __repr__(self) -> str:
        """All fields."""
        return f"Selection(ranks={self.ranks}, streams={self.streams}, kernel={self.kernel!r})"


def ascending(picked: list[int]) -> list[int]:
    """Distinct integers in ascending order."""
    return sorted(set(picked))


_of_job: WeakKeyDictionary[Job, Selection] = WeakKeyDictionary()
