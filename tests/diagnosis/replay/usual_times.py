"""A replay of the structure alone: how long operations and the host take, and what waits for what.

Inside the analysed steps, each latency, gap, delay and return takes what is usual on its rank, and
delays that nothing explains are left out. How far the steps are then from those recorded tells
whether the structure is right, which a replay of the recorded times cannot: it gives these back.
"""

from __future__ import annotations

import numpy as np

from hta_widgets.arrays import Float64Array, Mask
from hta_widgets.diagnosis.replay.operations import Operations
from hta_widgets.diagnosis.replay.recorded_job import Weights
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.diagnosis.replay.starts import GAP_NS, LATENCY_NS
from hta_widgets.trace.job import Job


def step_errors(job: Job, replay: Replay) -> Float64Array:
    """How far each step is from its recorded length, as a share of that."""
    recorded = replay.lengths_ns(replay.job.weights)
    usual = replay.lengths_ns(usual_weights(job, replay))
    return np.abs(usual - recorded) / recorded


def usual_weights(job: Job, replay: Replay) -> Weights:
    """The weights of a replay with what is usual on each rank."""
    recorded, weights = replay.job, replay.job.weights
    latency, gap = weights.latency.copy(), weights.gap.copy()
    delay, returning = weights.delay.copy(), weights.returning.copy()
    for place, rank in enumerate(recorded.ranks):
        own = np.flatnonzero((recorded.operation_rank == place) & ~recorded.is_finish)
        work = Operations(job.rank(rank))
        of_call = work.starts_call | (work.is_launched & (work.before < 0))
        is_first = work.before < 0
        idle = of_call & ~is_first & (work.end_ns[work.before] < work.launched_ns)
        latencies = (work.start_ns - work.launched_ns)[idle]
        inside = work.start_ns > recorded.parts[place].part.first_ns
        latency[own[of_call & inside]] = _median(latencies[latencies <= LATENCY_NS], 5_000)
        gaps = work.gap_ns[~is_first]
        usual_gap = _median(gaps[(gaps >= 0) & (gaps <= GAP_NS)], 1_000)
        seen = _some_launched_before(work)
        gap[own[inside & ~is_first & seen & (work.gap_ns > 0)]] = usual_gap
        mine = recorded.operation_rank[recorded.after] == place
        _become_usual(delay, mine)
        of_rank = recorded.point_rank[recorded.waiter] == place
        for kind in np.unique(recorded.wait_kind[of_rank]):
            _become_usual(returning, of_rank & (recorded.wait_kind == kind))
    return weights.changed(latency=latency, gap=gap, delay=delay, returning=returning)


def _some_launched_before(work: Operations) -> Mask:
    """Operations that follow one on their stream with a recorded launch, or have one themselves.

    The others were launched before the recording, and begin when they do.
    """
    found = np.zeros(len(work), dtype=np.bool_)
    for stream in range(work.streams):
        own = np.flatnonzero(work.stream == stream)
        found[own] = np.logical_or.accumulate(work.is_launched[own])
    return found


def _become_usual(values: Float64Array, chosen: Mask) -> None:
    values[chosen] = np.median(values[chosen]) if chosen.any() else 0


def _median(values: Float64Array, otherwise: float) -> float:
    return float(np.median(values)) if values.size else otherwise
