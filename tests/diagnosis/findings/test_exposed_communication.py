"""Transfers that computation does not hide."""

from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.rules.exposed_communication import _conditions
from tests.diagnosis.findings.scripts import Host, all_reduce, step_of
from tests.diagnosis.findings.scripts import diagnosed as of_hosts
from tests.diagnosis.findings.thresholds import Case, cases, least_price, share
from tests.diagnosis.findings.training_jobs import (
    US,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)
from tests.kineto_text import host

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
        "1.5 ms of communication per step is exposed, mostly 1 all_reduce per "
        "step (1.5 ms, 0.00819 GB/s), all of it while the next kernel waits for it: up to 1.5 "
    )
    groups = finding.evidence["groups"]
    assert groups[["operation", "group"]].to_numpy().tolist() == [["all_reduce", "dp"]]
    assert groups["exposed_ms"].tolist() == pytest.approx([1.5], rel=0.02)


def gathering(part):
    """Ten all-gathers in each step, of which the last has a part of all their time, of 2 ms."""

    def program(rank, step):
        del rank, step
        last = round(2000 * US * part)
        others = round((2000 * US - last) / 9)
        return [
            *layers(9, 500 * US),
            *(Meet(EVERYBODY, each, "all_gather", "tp") for each in [*[others] * 9, last]),
            *layers(1, 500 * US),
        ]

    return program


def has_one(folder, part):
    return "in the longest" in diagnosed(write_training(folder, 4, gathering(part)))[0].sentence


def test_one_of_many_collectives_that_takes_most_is_told(tmp_path):
    """Of ten all-gathers in 472 ms, the one of the logits took 442; overlapping was advised."""
    (finding, *_) = diagnosed(write_training(tmp_path, 4, gathering(0.9)))
    assert (
        "mostly 10 all_gather per step (2 ms, 0.276 GB/s; 1.8 ms in the longest)"
        in finding.sentence
    )
    assert finding.advice[0].do.startswith("Keep sharded what the longest all-gather collects, as")


def test_without_steps_nothing_is_counted_per_recording(tmp_path):
    finding = found(
        diagnosed(write_training(tmp_path, 4, training(1500), marks=False)), "exposed_communication"
    )

    assert "mostly 5 all_reduce (7.5 ms, 0.00819 GB/s)" in finding.sentence
    assert ": up to 7.5" in finding.sentence
    assert "of the 32.6 ms GPU span" in finding.sentence


def test_a_short_transfer_is_silent(tmp_path):
    assert not diagnosed(write_training(tmp_path, 4, training(300)))


def test_waiting_for_a_slow_rank_is_no_transfer(tmp_path):
    made = diagnosed(write_training(tmp_path, 4, training(200, slow=2)))

    assert [each.cause for each in made] == ["slow_gpu"]


def test_the_module_that_asks_for_the_transfer_is_named(tmp_path):
    hosts = [Host(), Host()]
    for number in range(4):
        with step_of(hosts, number):
            for name, transfer in (("Block_0", 900), ("Block_1", 900), ("Head_0", 600)):
                entered = [each.now for each in hosts]
                for each in hosts:
                    each.launch(500)
                all_reduce(hosts, transfer)
                for each, begin in zip(hosts, entered, strict=True):
                    frame = f"nn.Module: {name}"
                    each.events.append(host(begin, each.now - begin, frame, cat="python_function"))

    finding = found(of_hosts(tmp_path, *hosts), "exposed_communication")
    assert ", 75 % of it in Block, 75 % of it while the next kernel waits" in finding.sentence


def exposed(folder, *, transfer=1000, times=1, stream=20, between=0.0, annotation="", waits=False):
    """Two ranks that compute for 1 ms before, and after transfers that end their steps."""
    hosts = [Host(), Host()]
    for number in range(4):
        with step_of(hosts, number):
            for each in hosts:
                each.launch(1000)
            for _ in range(times):
                all_reduce(hosts, transfer, stream=stream)
            for each in hosts:
                if waits:
                    each.synchronise()
                each.does("ready?", between)
                with each.inside(annotation or "model"):
                    for _ in range(10):
                        each.launch(100)
    return found(of_hosts(folder, *hosts), "exposed_communication")


def reason_of(folder, **options):
    return exposed(folder, **options).evidence["reasons"]["reason"][0]


def test_what_was_launched_waits_for_the_transfer(tmp_path):
    finding = exposed(tmp_path)
    assert ", all of it while the next kernel waits for it: " in finding.sentence
    assert finding.advice[0].do.startswith("Start the communication before other")


def test_the_optimizer_waits_for_the_transfer(tmp_path):
    finding = exposed(tmp_path, annotation="Optimizer.step#AdamW.step")
    assert ", all of it while the optimizer waits for it: " in finding.sentence


def test_nothing_computes_beside_it_on_the_same_stream(tmp_path):
    finding = exposed(tmp_path, stream=7)
    assert ", all of it on the stream that computes: " in finding.sentence
    assert finding.advice[0].do.startswith("Communicate on a separate stream: nothing on")


def test_the_host_has_launched_nothing_that_could_compute_meanwhile(tmp_path):
    finding = exposed(tmp_path, waits=True)
    assert ", all of it before the next kernel is launched: " in finding.sentence
    assert finding.advice[0].do.startswith("Launch the next work before")


def test_short_transfers_are_latency(tmp_path):
    finding = exposed(tmp_path, transfer=40, times=20)
    assert ", all of it in transfers of at most 50 µs: " in finding.sentence
    assert finding.advice[0].do.startswith("Send fewer, larger messages")


def test_no_reason_holds_of_most_of_it(tmp_path):
    finding = exposed(tmp_path, between=1500)
    assert finding.evidence["reasons"]["percent"].max() < 60
    assert " of it " not in finding.sentence


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
    Case("exposed_communication.MOST_IN_ONE", has_one, {0.49: False, 0.51: True}),
    Case(
        "Limits.least_percent_in_every_job",
        lambda folder, percent: share(
            diagnosed(write_training(folder, 2, lambda *_: transferring(percent), steps=2)),
            "exposed_communication",
        ),
        {7.9: None, 8.1: 8.1},
    ),
    Case(
        "communication_facts.SHORT_NS",
        lambda folder, ns: reason_of(folder, transfer=ns / 1000, times=20),
        {49_000: "LATENCY", 51_000: "HELD"},
    ),
    Case(
        "exposed_communication.MOST_INCOMPLETE",
        incomplete,
        {0.49: "measured", 0.51: "inconclusive"},
    ),
)


@pytest.mark.parametrize(
    ("kernel", "is_of_experts"),
    [
        ("void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*)", True),
        ("void deep_ep::internode::dispatch<false, 8>(int4*)", True),
        ("ncclDevKernel_AllToAll_Sum_bf16(ncclDevKernelArgs)", False),
        ("void recombined<8>(float*)", False),
    ],
)
def test_tokens_that_are_sent_to_experts(kernel, is_of_experts):
    table = pd.DataFrame({"operation": [kernel.lower()]})
    assert (Condition.EXPERTS in {*_conditions(table, None)}) == is_of_experts
    of_moe = {*_conditions(table, None, {Condition.MOE})}
    assert (Condition.EXPERTS in of_moe) == (is_of_experts or "AllToAll" in kernel)


def test_sends_are_exchanges_but_may_be_those_of_a_pipeline():
    """Not tokens for experts, also in a model that has some."""
    table = pd.DataFrame({"operation": ["send_recv"], "exposed_ms": [5.0], "longest_ms": [1.0]})
    assert {*_conditions(table, None, {Condition.MOE})} == {Condition.EXCHANGES}
