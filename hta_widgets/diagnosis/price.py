"""What a cause costs: the step as recorded, less the step replayed without it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hta_widgets.diagnosis.replay.edits import Edit

Bound = Literal["measured", "at most", "at least"]
"""What a price says of the true one."""


class Price(NamedTuple):
    """What the mean step would be shorter by without a cause.

    Attributes
    ----------
    ns : float
    lower_ns : float
        The least that it may be, where ranks are not recorded that this job communicates with: with
        these as slow as before. Else the price.
    bound : {"measured", "at most", "at least"}
        Whether the cause costs this, or no more (as what replaces it costs something, too), or no
        less.
    edits : tuple of Edit
        What is different without it; empty where that is not replayed.
    after : tuple of Edit
        What has a price of its own: this is what is left to gain after it.
    """

    ns: float
    lower_ns: float
    bound: Bound = "measured"
    edits: tuple[Edit, ...] = ()
    after: tuple[Edit, ...] = ()

    @classmethod
    def counted(cls, ns: float, bound: Bound = "measured") -> Price:
        """A price that is no replay: a difference of steps, or a time."""
        return cls(ns, ns, bound)
