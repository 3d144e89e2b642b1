"""Pipelines from who sends to whom."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.communication.kernels import JobCollectives, Series
from hta_widgets.analyses.communication.recorded import rank_collectives
from hta_widgets.diagnosis.job.traffic import (
    Pipeline,
    copies_of_stages,
    pipelines,
)
from tests.analyses.collective_jobs import open_job, pipeline, write_job


def series(*pairs, group="pp"):
    return [Series("p2p", group, pair, 2) for pair in pairs]


def both_ways(*pairs):
    return series(*pairs, *((b, a) for a, b in pairs))


@pytest.mark.parametrize(
    ("all_series", "expected"),
    [
        (both_ways((0, 1), (1, 2), (2, 3)), [(0, 1, 2, 3)]),
        (both_ways((6, 3), (3, 5), (5, 1)), [(1, 5, 3, 6)]),
        (both_ways((0, 4), (1, 5), (4, 8), (5, 9)), [(0, 4, 8), (1, 5, 9)]),
        (both_ways((0, 1), (1, 2), (2, 3), (3, 0)), [(0, 1, 2, 3)]),
        (both_ways((5, 7)), [(5, 7)]),
        (both_ways((0, 1), (1, 2), (1, 3)), [(0, 1, 2, 3)]),
        (series((0, 1), (1, 2), (2, 3), (3, 0)), []),
        ([Series("all_reduce", "dp", (0, 1), 2)], []),
        ([], []),
    ],
    ids=[
        "chain", "ranks in another order", "two copies", "closed", "two stages", "branching",
        "ring one way", "no sends", "nothing",
    ],
)  # fmt: skip
def test_stages(all_series, expected):
    assert [*pipelines(all_series)] == expected


def test_copies():
    assert copies_of_stages([Pipeline((0, 4)), Pipeline((1, 5)), Pipeline((2, 6))]) == [
        (0, 1, 2),
        (4, 5, 6),
    ]
    assert copies_of_stages([Pipeline((0, 4)), Pipeline((1, 5, 6))]) == []
    assert copies_of_stages([]) == []


def test_pipeline_of_a_trace(tmp_path):
    job = open_job(write_job(tmp_path, pipeline(4, microbatches=3)))
    kernels = JobCollectives.of([*job.reduce(rank_collectives, job.ranks).values()])
    assert pipelines(kernels.all_series) == (Pipeline((0, 1, 2, 3)),)
