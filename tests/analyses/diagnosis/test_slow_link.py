"""Groups whose transfers take longer than the same ones of other groups."""

from __future__ import annotations

import re

import pytest

from tests.analyses.diagnosis.pipelines import pipeline
from tests.analyses.diagnosis.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
EVERYBODY = tuple(range(8))


def in_pairs(slow, factor=4.0, names=None, elements=1_000_000):
    """Tensor parallelism in pairs, then data parallelism of everybody."""

    def program(rank, step):
        del step
        pair = PAIRS[rank // 2]
        transfer = round(100 * US * (factor if pair == slow else 1))
        group = names[pair] if names else "tp"
        items = []
        for _ in range(10):
            items += layers(1, 400 * US)
            items += [Meet(pair, transfer, group=group, sent=elements, received=elements)]
        return [*items, Meet(EVERYBODY)]

    return program


@pytest.mark.parametrize("names", [None, {pair: f"tp{pair[0]}" for pair in PAIRS}])
def test_the_group_with_slow_transfers_is_named(tmp_path, names):
    made = diagnosed(write_training(tmp_path, 8, in_pairs((4, 5), names=names)))

    finding = found(made, "slow_link")
    assert finding.ranks == (4, 5)
    assert finding.recoverable_ms == pytest.approx(3.0, rel=0.05)
    assert finding.sentence.startswith(
        "Ranks 4-5 transfer at 5 GB/s, other groups at 20 GB/s (all_reduce of 2 MB, 4 times as "
        "long as in other groups): "
    )
    assert not found(made, "workload_imbalance")


def by_name_only(folder):
    """Traces of before 2024: groups are known by name and size, without their ranks."""
    for file in folder.glob("*.json"):
        text = re.sub(r'"Process Group Ranks": *"[^"]*",?', "", file.read_text())
        file.write_text(re.sub(r",(\s*})", r"\1", text))
    return folder


NAMES = {pair: f"tp{pair[0]}" for pair in PAIRS}


def test_ranks_of_a_group_that_is_known_by_its_name(tmp_path):
    """Those that meet in it."""
    program = in_pairs((4, 5), names=NAMES)
    made = diagnosed(by_name_only(write_training(tmp_path, 8, program)))
    assert "Process Group Ranks" not in (tmp_path / "rank-0.json").read_text()

    finding = found(made, "slow_link")
    assert finding.ranks == (4, 5)
    assert finding.recoverable_ms == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize(
    "options", [{"only": range(6)}, {"names": None}], ids=["missing ranks", "one name for all"]
)
def test_ranks_of_groups_by_name_that_cannot_be_told(tmp_path, options):
    program = in_pairs((4, 5), names=options.pop("names", NAMES))
    made = diagnosed(by_name_only(write_training(tmp_path, 8, program, **options)))
    assert not found(made, "slow_link")


def test_what_a_slow_link_costs_is_no_exposed_communication_too(tmp_path):
    made = diagnosed(write_training(tmp_path, 8, in_pairs((4, 5))))

    exposed = found(made, "exposed_communication")
    assert exposed is None or exposed.recoverable_ms < 1.5


def test_equal_links_are_silent(tmp_path):
    made = diagnosed(write_training(tmp_path, 8, in_pairs((4, 5), 1.0)))
    assert not found(made, "slow_link")


def test_transfers_of_few_elements_say_nothing_about_a_link(tmp_path):
    made = diagnosed(write_training(tmp_path, 8, in_pairs((4, 5), elements=100)))
    assert not found(made, "slow_link")


def test_one_group_of_all_ranks_cannot_be_compared(tmp_path):
    def program(rank, step):
        del rank, step
        return [*layers(4, 400 * US), Meet(EVERYBODY, 3000 * US)]

    made = diagnosed(write_training(tmp_path, 8, program))
    assert not found(made, "slow_link")
    assert found(made, "exposed_communication").ranks == EVERYBODY


def test_a_slow_link_between_two_stages_is_named(tmp_path):
    program = pipeline(
        4,
        16,
        lambda _rank, _step: 300 * US,
        transfer_ns=lambda one, other: (400 if {one, other} == {1, 2} else 20) * US,
    )

    made = diagnosed(write_training(tmp_path, 4, program))
    assert found(made, "slow_link").ranks == (1, 2)
    assert not found(made, "pipeline_bubble")
