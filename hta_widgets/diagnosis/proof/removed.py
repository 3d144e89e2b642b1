"""The time of a recording that would not pass without a cause, as its replay tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.proof.stretches import Stretches
from hta_widgets.diagnosis.rank_answers import replay_of_ranks
from hta_widgets.diagnosis.replay.edits import Edit, applied
from hta_widgets.diagnosis.replay.recorded_job import Weights

if TYPE_CHECKING:
    from hta_widgets.diagnosis.limits import TrialLimits
    from hta_widgets.diagnosis.replay.replay import Replay
    from hta_widgets.trace.job import Job


@dataclass(frozen=True)
class Removed:
    """Time that would not pass without a cause: what its price consists of, wherever it is.

    A host that is late once makes all that follows late; which idle time that is tells only the
    replay.

    Attributes
    ----------
    edits : tuple of Edit
        What is different without the cause.
    after : tuple of Edit
        What has a price of its own.
    ranks, steps : tuple of int
        Of the replay: those whose steps count.
    """

    edits: tuple[Edit, ...]
    after: tuple[Edit, ...]
    ranks: tuple[int, ...]
    steps: tuple[int, ...]

    def of(self, job: Job, limits: TrialLimits, ranks: Sequence[int]) -> dict[int, Stretches]:
        """When it is on some ranks, on the common clock."""
        replay = job.remember(replay_of_ranks, limits, self.ranks, self.steps)
        with_cause = applied(replay.job, self.after)
        without = applied(replay.job, (*self.after, *self.edits))
        times = [_starts_and_ends(replay, each) for each in (with_cause, without)]
        return {rank: _on_rank(replay, replay.job.ranks.index(rank), *times) for rank in ranks}


def _starts_and_ends(replay: Replay, weights: Weights) -> Float64Array:
    """When all operations start, then when they end."""
    end_ns = replay.network.solve(weights).end
    return np.concatenate((end_ns - weights.duration, end_ns))


def _on_rank(
    replay: Replay, place: int, with_cause: Float64Array, without: Float64Array
) -> Stretches:
    """By how much the time from one start or end to the next is shorter, at its end.

    Before the first of them, the host launches what it waits for (0.4 of 4.4 ms on an H100).
    Where operations change their order, a time counts from when all before it are reached.
    """
    job = replay.job
    recorded_ns = np.concatenate((job.end_ns - job.weights.duration, job.end_ns))
    own = np.flatnonzero(np.tile(job.operation_rank == place, 2))
    own = own[np.argsort(recorded_ns[own], kind="stable")]
    later_ns = np.subtract(*(np.maximum.accumulate(each[own]) for each in (with_cause, without)))
    shorter_ns = np.rint(np.diff(later_ns, prepend=0.0)).astype(np.int64)
    at_ns = np.rint(recorded_ns[own]).astype(np.int64)
    shorter_ns[1:] = np.minimum(shorter_ns[1:], np.diff(at_ns))
    gone = np.flatnonzero(shorter_ns > 0)
    return Stretches(at_ns[gone] - shorter_ns[gone], at_ns[gone])
