"""The recorded job without the causes of several findings: they may be parts of the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.diagnosis.rank_answers import replay_of_ranks
from hta_widgets.diagnosis.replay.binding import Solution
from hta_widgets.diagnosis.replay.critical_path import CriticalPath
from hta_widgets.diagnosis.replay.edits import Edit, applied
from hta_widgets.diagnosis.replay.replay import NS_PER_MS, Replay
from hta_widgets.trace.job import Job


class Together(NamedTuple):
    """What a mean step is without some causes.

    Attributes
    ----------
    gain_ms : float
        By how much it is shorter (ms).
    bound_by : str
        What sets its time then; empty where nothing is replayed.
    """

    gain_ms: float
    bound_by: str


NOT_REPLAYED: Final = Together(0.0, "")


@dataclass(frozen=True, eq=False)
class Replayed:
    """A replay, and what is different in it without each cause.

    The job remembers the replay until it is told to forget it: of 1.5 M events it has 100 MB, and
    is put together again in 65 ms.

    Attributes
    ----------
    job : Job
    asked : tuple
        What `replay_of_ranks` is asked.
    edits : mapping of str to tuple of Edit
        By the cause of each finding; none where it is not replayed.
    """

    job: Job
    asked: tuple[TrialLimits, tuple[int, ...], tuple[int, ...]]
    edits: Mapping[str, tuple[Edit, ...]]

    @property
    def replay(self) -> Replay:
        """The replay."""
        return self.job.remember(replay_of_ranks, *self.asked)

    def gain_ms(self, causes: Collection[str]) -> float:
        """By how much the mean step is shorter without some causes together (ms)."""
        edits = self._of(causes)
        return self.replay.gain_ns(edits) / NS_PER_MS if edits else 0.0

    def without(self, causes: Collection[str]) -> Together:
        """The mean step without some causes together."""
        edits = self._of(causes)
        replay = self.replay
        solution = Solution(replay.network, applied(replay.job, edits))
        path = CriticalPath.of(solution, replay.steps) if edits else replay.path
        return Together(self.gain_ms(causes), path.bound_by)

    def _of(self, causes: Collection[str]) -> Sequence[Edit]:
        return [edit for each in causes for edit in self.edits.get(each, ())]
