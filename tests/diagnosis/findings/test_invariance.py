"""What must not change a diagnosis: numbers of ranks, clocks, names of groups, a second look."""

from __future__ import annotations

import shutil
from functools import cache

import pytest

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.rules.wording import listed
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.pipelines import pipeline
from tests.diagnosis.findings.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    layers,
    write_training,
)

RANKS = 8
EVERYBODY = tuple(range(RANKS))
PAIRS = tuple((first, first + 1) for first in range(0, RANKS, 2))


def slow_gpu(rank, step):
    del step
    return [*layers(10, (700 if rank == 5 else 500) * US), Meet(EVERYBODY)]


def workload(rank, step):
    del step
    length = 700 if rank == 5 else 500
    return [*layers(10, length * US, shape=f"[[{length}]]"), Meet(EVERYBODY)]


def experts(rank, step):
    del step
    got = {each: 2400 if each == 5 else 800 for each in EVERYBODY}
    return [
        *layers(2, 200 * US),
        Meet(EVERYBODY, 50 * US, "all_to_all", "ep", 1000, got),
        Compute(got[rank] * US, "expert", f"[[{got[rank]}]]"),
        Meet(EVERYBODY, 50 * US, "all_to_all", "ep", got, 1000),
    ]


def slow_link(rank, step):
    del step
    pair = PAIRS[rank // 2]
    transfer = (400 if pair == (4, 5) else 100) * US
    return [
        *[*layers(1, 400 * US), Meet(pair, transfer, group="tp", sent=10**6, received=10**6)] * 10,
        Meet(EVERYBODY),
    ]


def stages(rank, step):
    return pipeline(4, 16, lambda rank, _step: (450 if rank in {4, 5} else 300) * US, copies=2)(
        rank, step
    )


JOBS = {
    "slow_gpu": slow_gpu,
    "workload_imbalance": workload,
    "expert_imbalance": experts,
    "slow_link": slow_link,
    "stage_imbalance": stages,
}


def renumbered(program, new):
    """The same job with other numbers of the ranks."""
    old = {number: rank for rank, number in enumerate(new)}

    def numbers(values):
        return values if isinstance(values, int) else {new[k]: v for k, v in values.items()}

    def run(rank, step):
        return [
            item
            if isinstance(item, Compute)
            else Meet(
                tuple(new[each] for each in item.ranks),
                item.transfer_ns,
                item.name,
                item.group,
                numbers(item.sent),
                numbers(item.received),
            )
            for item in program(old[rank], step)
        ]

    return run


def named(program, name):
    """The same job with other names of its process groups."""

    def run(rank, step):
        return [
            item
            if isinstance(item, Compute)
            else Meet(item.ranks, item.transfer_ns, item.name, name(item), item.sent, item.received)
            for item in program(rank, step)
        ]

    return run


def said(made):
    return [(each.cause, each.ranks) for each in made]


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The diagnosis of a job as it is."""

    @cache
    def of(cause):
        return diagnosed(write_training(tmp_path_factory.mktemp(cause), RANKS, JOBS[cause]))

    return of


@pytest.mark.parametrize("cause", JOBS)
def test_each_job_has_its_cause_first(usual, cause):
    assert said(usual(cause))[0][0] == cause


@pytest.mark.parametrize("cause", ["slow_gpu", "workload_imbalance", "expert_imbalance"])
def test_other_numbers_of_the_ranks_give_the_same_with_these_numbers(usual, tmp_path, cause):
    new = (3, 0, 7, 1, 6, 2, 4, 5)
    before = said(usual(cause))
    after = diagnosed(write_training(tmp_path, RANKS, renumbered(JOBS[cause], new)))
    assert said(after) == [(name, tuple(sorted(new[rank] for rank in of))) for name, of in before]


@pytest.mark.parametrize("cause", JOBS)
def test_clocks_that_are_seconds_apart_change_nothing(usual, tmp_path, cause):
    shifts = {rank: (rank * 1_700_000 + 50) % 9_000_000 * US for rank in EVERYBODY}
    one = usual(cause)
    other = diagnosed(write_training(tmp_path, RANKS, JOBS[cause], shifts_ns=shifts))
    assert said(other) == said(one)
    assert [each.percent for each in other] == pytest.approx(
        [each.percent for each in one], rel=0.01
    )


@pytest.mark.parametrize("name", [lambda _item: "g", lambda item: f"{item.group}{item.ranks}"])
@pytest.mark.parametrize("cause", ["slow_link", "stage_imbalance", "expert_imbalance"])
def test_names_of_sibling_groups_change_nothing(usual, tmp_path, cause, name):
    other = diagnosed(write_training(tmp_path, RANKS, named(JOBS[cause], name)))
    assert said(other) == said(usual(cause))


def test_a_rank_beside_itself_is_no_straggler(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    write_training(source, 1, lambda rank, step: layers(10, (500 + 10 * step + rank) * US))
    shutil.copy(source / "rank-0.json", tmp_path / "again.json")
    both = {0: source / "rank-0.json", 1: tmp_path / "again.json"}
    assert said(diagnosis(open_trace(both, progress=False))) == []


def test_two_causes_at_once_are_both_named(tmp_path):
    def program(rank, step):
        del step
        shape, time = ("[[80]]", 800) if rank == 6 else ("[[50]]", 650 if rank == 1 else 500)
        return [*layers(10, time * US, shape=shape), Meet(EVERYBODY, 2500 * US)]

    made = diagnosed(write_training(tmp_path, RANKS, program))
    assert ("exposed_communication", EVERYBODY) in said(made)
    assert ("workload_imbalance", (6,)) in said(made)


def test_many_ranks_are_listed_in_short():
    assert len(listed(tuple(range(0, 10_000, 3)))) < 40
