"""The engine against an implementation of the same rules that shares no code with it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob, Weights
from tests.diagnosis.replay.brute_force import Node, earliest, graph
from tests.diagnosis.replay.brute_force import Weights as PlainWeights
from tests.diagnosis.replay.random_jobs import open_random

SEEDS = [seed for seed in range(96) if seed % 6 != 5]  # these have ties, which may fall either way
SEEDS_EACH = 16
EXACT_NS = 1e-3

Changes = tuple[Callable[[PlainWeights], None], Callable[[Weights], Weights]]


def _no_host(weights: PlainWeights) -> None:
    weights.d.update(dict.fromkeys(weights.d, 0.0))


def _fast_gpu(weights: PlainWeights) -> None:
    for of in (weights.dur, weights.transfer):
        of.update({node: ns / 2 for node, ns in of.items()})


def _no_waits(weights: PlainWeights) -> None:
    weights.ret.clear()


CHANGES: dict[str, Changes] = {
    "nothing": (lambda _: None, lambda weights: weights),
    "no host": (_no_host, lambda weights: weights.changed(own=0 * weights.own)),
    "a GPU twice as fast": (
        _fast_gpu,
        lambda weights: weights.changed(
            duration=weights.duration / 2, transfer=weights.transfer / 2
        ),
    ),
    "no waits": (
        _no_waits,
        lambda weights: weights.changed(returning=np.full_like(weights.returning, -np.inf)),
    ),
}


def nodes(job: RecordedJob) -> list[Node]:
    """What each operation of the engine is called there."""
    kind = np.full(job.stream.size, "", dtype=object)
    meets = ~job.is_alone
    kind[job.arrival[meets]], kind[job.finish[meets]] = "arrival", "finish"
    found: list[Node] = []
    for at, (place, operation) in enumerate(
        zip(job.operation_rank.tolist(), job.operation.tolist(), strict=True)
    ):
        key = job.ranks[place], int(job.parts[place].column("row")[operation])
        found.append((*key, kind[at]) if kind[at] else key)
    return found


@pytest.mark.parametrize("first", range(0, len(SEEDS), SEEDS_EACH))
def test_every_end_is_that_of_the_plain_rules(first, tmp_path):
    for seed in SEEDS[first : first + SEEDS_EACH]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        job = open_random(folder, seed)
        plain, engine = graph(job), replay(job)
        for_room = engine.job.of_parts("starts.waits_for_room")
        assert sum(each.sum() for each in for_room) == len(plain.for_room), seed
        # of communication that meets nobody the plain rules know no arrival
        compared = np.ones(engine.job.stream.size, dtype=bool)
        compared[engine.job.arrival[engine.job.is_alone]] = False
        names = [name for name, kept in zip(nodes(engine.job), compared, strict=True) if kept]
        for what, (plainly, change) in CHANGES.items():
            expected = earliest(plain.edited(plainly))
            times = engine.network.solve(change(engine.job.weights)).end[compared]
            off = {
                name: (expected[name], end)
                for name, end in zip(names, times.tolist(), strict=True)
                if abs(expected[name] - end) > EXACT_NS
            }
            assert not off, (seed, what)
