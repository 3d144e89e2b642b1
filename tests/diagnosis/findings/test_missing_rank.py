"""Ranks of the job that have no trace."""

from __future__ import annotations

import json

import pytest

from hta_widgets.diagnosis import diagnosis
from hta_widgets.trace.opening.open import RankSample, open_trace
from tests.diagnosis.findings.thresholds import Case, cases, least_price
from tests.diagnosis.findings.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)

EVERYBODY = (0, 1, 2, 3)


def one_late(late, every=1):
    def program(rank, step):
        items = []
        for layer in range(4):
            longer = rank == late and layer % every == 0
            items += [
                *layers(2, (900 if longer else 500) * US, shape=f"[[{layer}, {int(longer)}]]")
            ]
            items += [Meet(EVERYBODY, 50 * US)]
        del step
        return items

    return program


def test_a_rank_that_the_others_wait_for_is_missing(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, one_late(3), only=[0, 1, 2]))

    assert found(made, "missing_rank").ranks == (3,)
    exposed = found(made, "exposed_communication")
    assert exposed.confidence == "inconclusive"
    assert "ranks without a trace (3)" in exposed.sentence
    assert not found(made, "workload_imbalance")


def test_a_rank_that_only_its_neighbour_meets_is_missing(tmp_path):
    def program(rank, step):
        del step
        node = (0, 1) if rank < 2 else (2, 3)
        meet = Meet(node, 50 * US, group=f"node {node[0]}")
        layer_ns = (900 if rank == 3 else 500) * US
        part = [*layers(2, layer_ns), meet, Meet(EVERYBODY[::2], 50 * US, group="even")]
        part = part if rank % 2 == 0 else part[:-1]
        return [*part * 4, *layers(1, 500 * US)]

    made = diagnosed(write_training(tmp_path, 4, program, only=[0, 1, 2]))
    assert found(made, "exposed_communication").confidence == "inconclusive"
    assert found(made, "missing_rank").ranks == (3,)


def test_waiting_that_no_recorded_rank_explains_is_its_price(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, one_late(3, every=2), only=[0, 1, 2]))

    finding = found(made, "missing_rank")
    assert finding.ranks == (3,)
    assert finding.recoverable_ms == pytest.approx(1.6, rel=0.05)
    assert "16 of 16 collectives lack a member" in finding.sentence
    assert "Waiting that no recorded rank explains: at least 1.59 ms" in finding.sentence


def test_a_bound_that_is_not_worth_saying_is_no_price(tmp_path):
    """Nearly all of the waiting is in each collective, so that it may be transfer."""

    def program(rank, step):
        del step
        items = []
        for layer in range(4):
            longer_us = 400 + 30 * layer if rank == 3 else 0
            items += [Compute((1000 + longer_us) * US), Meet(EVERYBODY, 50 * US)]
        return items

    finding = found(diagnosed(write_training(tmp_path, 4, program, only=[0, 1, 2])), "missing_rank")
    assert (finding.recoverable_ms, finding.percent) == (0, 0)
    assert "at least" not in finding.sentence


def test_sends_without_fields_are_matched_with_nobody(tmp_path):
    folder = write_training(tmp_path, 4, one_late(3), only=[0, 1, 2])
    for path in folder.iterdir():
        document = json.loads(path.read_text())
        for event in document["traceEvents"]:
            if event["name"].startswith("nccl"):
                event["name"] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
                kept = ("device", "stream", "correlation")
                event["args"] = {name: event["args"][name] for name in kept}
        path.write_text(json.dumps(document))

    finding = found(diagnosed(folder), "missing_rank")
    assert finding.ranks == (3,)
    told = "Rank 3 has no trace; no collective can be matched, so that waiting for it looks like"
    assert finding.sentence == f"{told} transfer."
    assert (finding.recoverable_ms, finding.percent) == (0, 0)


def test_a_missing_rank_that_nobody_waits_for_is_not_reported(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, one_late(None), only=[0, 1, 2]))


def test_a_complete_job_misses_nobody(tmp_path):
    assert not found(diagnosed(write_training(tmp_path, 4, one_late(3))), "missing_rank")


@pytest.mark.parametrize("ranks", [[0, 1], RankSample(2)])
def test_ranks_that_were_not_opened_are_not_missing(tmp_path, ranks):
    folder = write_training(tmp_path, 4, one_late(3))
    job = open_trace(folder, ranks=ranks, progress=False)

    made = diagnosis(job)
    assert job.recorded_ranks == EVERYBODY
    assert not found(made, "missing_rank")
    exposed = found(made, "exposed_communication")
    assert exposed is None or exposed.confidence == "inconclusive"


def test_transfers_of_ranks_that_were_not_opened_are_in_doubt(tmp_path):
    folder = write_training(tmp_path, 4, one_late(3))
    made = diagnosis(open_trace(folder, ranks=[0, 1], progress=False))

    exposed = found(made, "exposed_communication")
    assert exposed.confidence == "inconclusive"
    assert "waiting for ranks that are not open" in exposed.sentence


def test_when_most_of_the_job_has_no_trace_it_is_no_finding(tmp_path):
    def program(rank, step):
        del step
        time = 900 if rank == 7 else 500
        return [Compute(time * US, shape=f"[[{time}]]"), Meet(tuple(range(8)), 50 * US)]

    made = diagnosed(write_training(tmp_path, 8, program, only=[0, 1, 2]))
    assert not found(made, "missing_rank")


def recorded(folder, part):
    """Three ranks of more are recorded, all of which wait for another one at times."""
    ranks = round(3 / part)

    def program(rank, step):
        del step
        items = []
        for layer in range(4):
            is_late = rank == ranks - 1 and layer % 2 == 0
            items += [Compute((900 if is_late else 100) * US, shape=f"[[{layer}]]")]
            items += [Meet(tuple(range(ranks)), 50 * US)]
        return items

    made = diagnosed(write_training(folder, ranks, program, steps=2, only=[0, 1, 2]))
    return found(made, "missing_rank") is not None


test_what_a_missing_rank_must_cost = least_price(
    "missing_rank",
    "least_percent",
    lambda folder: diagnosed(write_training(folder, 4, one_late(3, every=2), only=[0, 1, 2])),
)

test_thresholds = cases(Case("health.HALF", recorded, {3 / 7: False, 0.5: True}))
