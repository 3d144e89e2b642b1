"""Groups whose transfers take longer than the same ones of other groups."""

from __future__ import annotations

import json
import re

import pytest

from tests.diagnosis.findings.pipelines import pipeline
from tests.diagnosis.findings.thresholds import Case, cases, least_price, price, share
from tests.diagnosis.findings.training_jobs import (
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


def between_stages(folder):
    """Of four stages, two send each other what takes 380 µs more, four times each way."""
    program = pipeline(
        4,
        4,
        lambda _rank, _step: 300 * US,
        transfer_ns=lambda one, other: (400 if {one, other} == {1, 2} else 20) * US,
    )
    return write_training(folder, 4, program, steps=2)


def test_sends_cost_what_they_take_longer(tmp_path):
    made = diagnosed(between_stages(tmp_path))
    assert found(made, "slow_link").recoverable_ms == pytest.approx(8 * 0.38, rel=0.01)


def test_sends_cost_no_more_than_is_not_hidden(tmp_path):
    """Kernels run beside 90 % of each, and the next one waits for both."""
    for file in between_stages(tmp_path).glob("*.json"):
        trace = json.loads(file.read_text())
        trace["traceEvents"] += [
            each
            | {
                "name": "beside",
                "dur": 0.9 * each["dur"],
                "args": {"device": 0, "stream": 7, "correlation": each["args"]["correlation"]},
            }
            for each in trace["traceEvents"]
            if "SendRecv" in each["name"]
        ]
        file.write_text(json.dumps(trace))
    made = diagnosed(tmp_path)

    computing_ms = made.steps.groupby("rank")["compute_ns"].mean().max() / 1e6
    not_hidden_ms = made.step_ns / 1e6 - computing_ms
    assert not_hidden_ms < 1
    assert 0.5 < found(made, "slow_link").recoverable_ms < not_hidden_ms


def two_pairs(folder, factor, *, transfer_us=100, elements=1_000_000, own=(), others=(), us=400):
    """Of two pairs, the second transfers longer; each may transfer what the other does not (µs)."""

    def program(rank, step):
        del step
        pair, is_slow = PAIRS[rank // 2], rank > 1
        transfer = round(transfer_us * US * (factor if is_slow else 1))
        meet = Meet(pair, transfer, group="tp", sent=elements, received=elements)
        alone = [Meet(pair, each * US, group="tp") for each in (own if is_slow else others)]
        return [*[*layers(1, us * US), meet] * 10, *alone, Meet((0, 1, 2, 3)), *layers(1, us * US)]

    return diagnosed(write_training(folder, 4, program, steps=2))


def test_a_slow_link_costs_no_more_than_its_transfers_take_longer(tmp_path):
    """Its ranks transfer something else, too."""
    made = two_pairs(tmp_path, 4.0, own=[5000])
    assert price(made, "slow_link") == pytest.approx(10 * 0.3, rel=0.01)


def test_a_slow_link_costs_nothing_while_others_take_as_long(tmp_path):
    """All meet after it, and the other pair transfers something else for 3 ms."""
    assert price(two_pairs(tmp_path, 4.0, others=[2000]), "slow_link") == pytest.approx(1, rel=0.01)
    (tmp_path / "3").mkdir()
    assert not found(two_pairs(tmp_path / "3", 4.0, others=[3000]), "slow_link")


test_what_a_link_must_cost = least_price(
    "slow_link", "least_percent_slow_link", lambda folder: two_pairs(folder, 2.0)
)

test_thresholds = cases(
    Case(
        "Limits.slower_link",
        lambda folder, factor: price(two_pairs(folder, factor), "slow_link"),
        {1.49: None, 1.51: 0.51},
    ),
    Case(
        "Limits.slower_link_us",
        lambda folder, us: price(
            two_pairs(folder, 1 + us / 20, transfer_us=20, us=100), "slow_link"
        ),
        {29.9: None, 30.1: 0.301},
    ),
    Case(
        "Limits.least_percent_slow_link",
        lambda folder, percent: share(
            two_pairs(folder, 4.0, us=round((3000 / (percent / 100) - 4250) / 11)), "slow_link"
        ),
        {3.9: None, 4.1: 4.1},
    ),
    Case(
        "slow_link.FEWEST_ELEMENTS",
        lambda folder, elements: price(two_pairs(folder, 4.0, elements=elements), "slow_link"),
        {1000: None, 1001: 3.0},
    ),
)
