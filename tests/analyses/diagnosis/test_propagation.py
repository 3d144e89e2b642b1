"""What ranks pass on to others, against a count over true times."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hta_widgets.diagnosis.analysis import _collective_waits, _facts_of_all
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.diagnosis.scripts import Host, all_reduce
from tests.kineto_text import step, write

RANKS = 3
LOADER = "train_dataloader_next"


def job(seed, steps=5):
    """Ranks that load at random, and how much of that each other rank waits for (µs)."""
    choice = random.Random(seed)  # noqa: S311
    hosts = [Host() for _ in range(RANKS)]
    passed = np.zeros((RANKS, steps))
    for number in range(steps):
        begins = [each.now for each in hosts]
        for _ in range(3):
            loaded, arrived = [], []
            for each in hosts:
                idle_from = each.free
                length = choice.choice([0, 0, 200, 1500])
                each.does(LOADER, length, cat="user_annotation")
                busy_until = max(idle_from, each.now - length)
                loaded.append(max(0, each.now - busy_until) if length else 0)
                each.launch(choice.randint(50, 400))
                arrived.append(max(each.free, each.now + 6))
            all_reduce(hosts)
            late = int(np.argmax(arrived))
            for rank in range(RANKS):
                if rank != late:
                    wait = arrived[late] - arrived[rank]
                    passed[rank, number] += min(wait, loaded[late])
        for each, begin in zip(hosts, begins, strict=True):
            each.launch(20)
            each.synchronise()
            each.events.append(step(number, begin, each.now - begin))
    return hosts, passed


@pytest.mark.parametrize("seed", range(8))
def test_against_true_times(tmp_path, seed):
    hosts, expected = job(seed)
    for rank, each in enumerate(hosts):
        info = {"rank": rank, "world_size": RANKS, "backend": "nccl"}
        write(tmp_path / f"rank-{rank}.json", each.events, distributedInfo=info)
    opened = open_trace(tmp_path, progress=False)
    facts = opened.remember(_facts_of_all, Limits().trials)
    steps = Steps.of({rank: each.steps for rank, each in facts.items()})
    waits = opened.remember(_collective_waits, Limits().trials)
    found = waits.propagated(steps, ("gap_loader",)) / 1000
    # where two ranks arrive nearly together, it is not certain who is late
    np.testing.assert_allclose(found, expected[:, :-1], atol=100)
    assert found.sum() == pytest.approx(expected[:, :-1].sum(), rel=0.03)
    nothing = waits.propagated(steps, ("gap_alloc",))
    assert not nothing.any()
    half = waits.propagated(steps, ("gap_loader",), np.full(steps.own.shape, 0.5))
    assert (half <= found * 1000).all()
