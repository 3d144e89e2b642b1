"""What is selected, shared by the panels of one job."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from traitlets import Int, List, Unicode, validate

from hta_widgets.panels.base.assets import SharedModel
from hta_widgets.panels.base.turns import in_turn
from hta_widgets.trace.job import Job


class Selection(SharedModel):
    """Ranks, streams and kernel that the panels of one job have in common.

    Examples
    --------
    >>> selection = Selection(ranks=[3, 0])
    >>> selection.ranks
    [0, 3]
    """

    ranks: List[int] = List(Int()).tag(sync=True)
    """Selected ranks, ascending; an empty list means all."""

    streams: List[int] = List(Int()).tag(sync=True)
    """Selected streams, ascending; an empty list means all."""

    kernel = Unicode().tag(sync=True)
    """Full name of the selected kernel; an empty string means none."""

    @classmethod
    def of(cls, job: Job) -> Selection:
        """Return the selection that all panels of a job share unless they are given another."""
        selection = _of_job.get(job)
        if selection is None or selection.comm is None:
            selection = _of_job[job] = cls()
        return selection

    @in_turn
    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take over a message of the browser, in all panels that follow."""
        super().set_state(sync_data)

    @validate("ranks", "streams")
    def _ascending(self, proposal: dict[str, Any]) -> list[int]:
        return ascending(proposal["value"])

    def __repr__(self) -> str:
        """All fields."""
        return f"Selection(ranks={self.ranks}, streams={self.streams}, kernel={self.kernel!r})"


def ascending(picked: list[int]) -> list[int]:
    """Integers in order, each once."""
    return sorted(set(picked))


_of_job: WeakKeyDictionary[Job, Selection] = WeakKeyDictionary()
