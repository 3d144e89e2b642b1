"""Transfers that computation does not hide."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis.scripts import Host, all_reduce
from tests.analyses.diagnosis.scripts import diagnosed as of_hosts
from tests.analyses.diagnosis.thresholds import Case, cases, least_price, share
from tests.analyses.diagnosis.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)
from tests.kineto_text import host, step

EVERYBODY = (0, 1, 2, 3)


def training(transfer_us, slow=None):
    def program(rank, step):
        del step
        layer_ns = (650 if rank == slow else 500) * US
        return [
            *layers(9, layer_ns),
            Meet(EVERYBODY, transfer_us * US, group="dp"),
            *layers(1, layer_ns),
        ]

    return program


def test_transfer_after_the_computation_is_exposed(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, training(1500)))

    finding = found(made, "exposed_communication")
    assert finding.ranks == EVERYBODY
    assert finding.confidence == "measured"
    assert finding.recoverable_ms == pytest.approx(1.5, rel=0.02)
    assert finding.sentence.startswith(
        "All ranks transfer data with nothing to compute meanwhile, most of all 1 all_reduce per "
        "step (1.5 ms, 0.00819 GB/s): 1.5 ms of each 6.5"
    )
    groups = finding.evidence["groups"]
    assert groups[["operation", "group"]].to_numpy().tolist() == [["all_reduce", "dp"]]
    assert groups["exposed_ms"].tolist() == pytest.approx([1.5], rel=0.02)


def test_without_steps_nothing_is_counted_per_recording(tmp_path):
    finding = found(
        diagnosed(write_training(tmp_path, 4, training(1500), marks=False)), "exposed_communication"
    )

    assert "most of all 5 all_reduce (7.5 ms, 0.00819 GB/s): 7.5" in finding.sentence
    assert "of the 32.6 ms GPU span" in finding.sentence


def test_a_short_transfer_is_silent(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, training(300)))


def test_waiting_for_a_slow_rank_is_no_transfer(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, training(200, slow=2)))

    assert [each.cause for each in made] == ["slow_gpu"]


def test_the_module_that_asks_for_the_transfer_is_named(tmp_path):
    hosts = [Host(), Host()]
    for number in range(4):
        begins = [each.now for each in hosts]
        for name, transfer in (("Block_0", 900), ("Block_1", 900), ("Head_0", 600)):
            entered = [each.now for each in hosts]
            for each in hosts:
                each.launch(500)
            all_reduce(hosts, transfer)
            for each, begin in zip(hosts, entered, strict=True):
                frame = f"nn.Module: {name}"
                each.events.append(host(begin, each.now - begin, frame, cat="python_function"))
        for each, begin in zip(hosts, begins, strict=True):
            each.synchronise()
            each.events.append(step(number, begin, each.now - begin))

    finding = found(of_hosts(tmp_path, *hosts), "exposed_communication")
    assert ", 75 % of it in Block: " in finding.sentence


def incomplete(folder, part):
    """Ranks 0 and 1 of four are recorded; this part of the transfer is with the others."""

    def program(rank, step):
        del step
        pair = (0, 1) if rank < 2 else (2, 3)
        inner = Meet(pair, round(3000 * US * (1 - part)), group="pair")
        return [*layers(2, 500 * US), inner, Meet(EVERYBODY, round(3000 * US * part))]

    made = diagnosed(write_training(folder, 4, program, steps=2, only=[0, 1]))
    return found(made, "exposed_communication").confidence


def transferring(percent):
    transfer = Meet((0, 1), round(50 * US * percent))
    return [*layers(4, 1000 * US), transfer, *layers(1, round(1000 * US - 50 * US * percent))]


test_what_transfers_must_cost = least_price(
    "exposed_communication",
    "least_percent_in_every_job",
    lambda folder: diagnosed(write_training(folder, 4, training(700), steps=2)),
)

test_thresholds = cases(
    Case(
        "Limits.least_percent_in_every_job",
        lambda folder, percent: share(
            diagnosed(write_training(folder, 2, lambda *_: transferring(percent), steps=2)),
            "exposed_communication",
        ),
        {7.9: None, 8.1: 8.1},
    ),
    Case(
        "exposed_communication.MOST_INCOMPLETE",
        incomplete,
        {0.49: "measured", 0.51: "inconclusive"},
    ),
)
