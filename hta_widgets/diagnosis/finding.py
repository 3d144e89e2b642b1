"""One cause of lost time: who, when, what it costs, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import pandas as pd

Confidence = Literal["measured", "inconclusive"]


Evidence = pd.DataFrame | float | int | str

LONGEST_SENTENCE: Final = 240
"""Characters that are read at one glance."""


class Words(NamedTuple):
    """What a sentence is made of, beside the price.

    Attributes
    ----------
    cause : str
        Who and what, without a full stop.
    detail : str
        What is added to it if the sentence does not get too long, with its comma.
    is_lower_bound : bool
        Whether the cause may cost more than the price.
    """

    cause: str
    detail: str = ""
    is_lower_bound: bool = False

    def sentence(self, cost: str) -> str:
        """Put the sentence together; the cost is left out where it is empty."""
        end = f": {cost}." if cost else "."
        whole, short = f"{self.cause}{self.detail}{end}", f"{self.cause}{end}"
        if len(whole) <= LONGEST_SENTENCE:
            return whole
        if len(short) <= LONGEST_SENTENCE:
            return short
        return f"{self.cause[: LONGEST_SENTENCE - len(end) - 1].rstrip()}…{end}"


NO_WORDS: Final = Words("")


@dataclass(frozen=True, kw_only=True)
class Link:
    """What *Show* selects: the panel that shows the evidence, and the part of the job.

    Attributes
    ----------
    panel : str
        Name of an analysis, such as ``idle_owners``.
    ranks : tuple of int
        Empty for all.
    streams : tuple of int
    steps : tuple of int
        ProfilerSteps; empty for all.
    window_ns : tuple of int, optional
        Start and end, since the first event of all ranks, on aligned clocks.
    kernel : str
        Name of a kernel, or empty.
    """

    panel: str
    ranks: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    window_ns: tuple[int, int] | None = None
    kernel: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """One cause of lost time.

    Attributes
    ----------
    cause : str
        One of `CAUSES`.
    ranks : tuple of int
        Who causes it, never who only waits; all ranks if all do; empty if it is another rank in
        each step.
    steps : tuple of int
        ProfilerSteps in which it occurs; empty if no steps are recorded.
    sentence : str
        The cause in words, with its numbers and its cost, if that is known; at most 240 characters.
    words : Words
        What it is made of.
    recoverable_ms : float
        By how much (ms) the mean analysed step, or without steps the GPU span, would be shorter
        without it; 0 where that cannot be told. Those of several findings must not be added.
    percent : float
        The same in percent of the mean step, `Diagnosis.period_ns`.
    action : str
        What to do next.
    evidence : mapping of str to DataFrame or number
        The numbers behind it, with units in the names of columns.
    links : tuple of Link
        Where it is seen.
    confidence : str
        ``measured``, or ``inconclusive``: the trace lacks what would tell; `sentence` says what.
    """

    cause: str
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    sentence: str
    recoverable_ms: float
    percent: float
    action: str
    words: Words = field(default=NO_WORDS)
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    confidence: Confidence = "measured"

    def to_dict(self) -> dict[str, Any]:
        """The finding as values of JSON, without the tables of `evidence`."""
        return {
            "cause": self.cause,
            "ranks": list(self.ranks),
            "steps": list(self.steps),
            "sentence": self.sentence,
            "recoverable_ms": round(self.recoverable_ms, 4),
            "percent": round(self.percent, 2),
            "is_lower_bound": self.words.is_lower_bound,
            "action": self.action,
            "confidence": self.confidence,
            "evidence": {
                name: value
                for name, value in self.evidence.items()
                if not isinstance(value, pd.DataFrame)
            },
        }
