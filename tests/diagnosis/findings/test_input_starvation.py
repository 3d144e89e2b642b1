"""Waiting for data."""

from __future__ import annotations

import pytest

from hta_widgets.quantities import duration
from tests.diagnosis.findings.scripts import Host, all_reduce, diagnosed, found, step_of
from tests.diagnosis.findings.thresholds import Case, cases, least_price, share
from tests.kineto_text import host

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
ZOOM = "data.py(7): zoom_shift"


def job(loading, steps=5, *, loader=LOADER, inner=0.0, ranks=4, kernel_us=200):
    """Ranks that load for so long (µs) in each step; a function of rank and step."""
    hosts = [Host() for _ in range(ranks)]
    for number in range(steps):
        with step_of(hosts, number):
            for rank, each in enumerate(hosts):
                begins_loading, length = each.now, loading(rank, number)
                each.does(loader, length, cat="user_annotation")
                if inner:
                    event = host(begins_loading, inner * length, ZOOM, cat="python_function")
                    each.events.append(event)
                for _ in range(8):
                    each.launch(kernel_us)
            all_reduce(hosts)
    return hosts


def test_all_ranks_wait_for_data(tmp_path):
    diagnosis = diagnosed(tmp_path, *job(lambda *_: 1500))
    finding = found(diagnosis, "input_starvation")
    assert finding.ranks == (0, 1, 2, 3)
    assert finding.steps == (0, 1, 2, 3)
    assert finding.recoverable_ms == pytest.approx(1.5, rel=0.1)
    assert "waiting for DataLoader workers: " in finding.sentence
    assert finding.action.startswith("Give the DataLoader more workers")
    start, end = diagnosis.proof(finding).shown_ns(0)
    assert 1_500_000 <= end - start <= 2_000_000
    assert finding.evidence["steps"]["idle_ms"].max() == pytest.approx(1.5, rel=0.1)


def test_the_function_that_takes_most_of_it_is_named(tmp_path):
    """Of the time inside the loader, and only if no other function may take as much."""
    hosts = job(lambda *_: 1500, loader=SINGLE, inner=0.8)
    finding = found(diagnosed(tmp_path, *hosts), "input_starvation")
    assert "waiting for the single-process DataLoader, 80 %" in finding.sentence
    assert f"% of this time inside {ZOOM}" in finding.sentence
    share = float(finding.sentence.partition(" % of this time")[0].rpartition(" ")[2])
    assert share == pytest.approx(80, abs=2)
    assert "num_workers" in finding.advice[0].code


def test_a_function_counts_whatever_calls_it(tmp_path):
    """The first batch is asked for by another function, and on one rank all batches are."""
    hosts = job(lambda *_: 1500, loader=SINGLE, inner=0.86)
    for rank, each in enumerate(hosts):
        loads = [event for event in each.events if event["name"] == SINGLE]
        for event in loads if rank == 3 else loads[:1]:
            warms_up = host(
                event["ts"], event["dur"], "train.py(3): warm_up", cat="python_function"
            )
            each.events.insert(0, warms_up)
    finding = found(diagnosed(tmp_path, *hosts), "input_starvation")
    assert f"% of this time inside {ZOOM}" in finding.sentence
    share = float(finding.sentence.partition(" % of this time")[0].rpartition(" ")[2])
    assert share == pytest.approx(86, abs=1)


def test_a_function_that_takes_half_of_it_is_not_named(tmp_path):
    hosts = job(lambda *_: 1500, loader=SINGLE, inner=0.55)
    finding = found(diagnosed(tmp_path, *hosts), "input_starvation")
    assert ZOOM not in finding.sentence
    assert "waiting for the single-process DataLoader: " in finding.sentence


def test_one_rank_waits_for_data(tmp_path):
    hosts = job(lambda rank, _: 1500 if rank == 2 else 10)
    finding = found(diagnosed(tmp_path, *hosts), "input_starvation")
    assert finding.ranks == (2,)
    assert finding.sentence.startswith("The GPU on rank 2 sits idle for up to ")
    assert finding.recoverable_ms == pytest.approx(1.5, rel=0.1)


def test_ranks_that_wait_in_turns_hold_up_all(tmp_path):
    """In each step another one: no rank's own time tells the cost."""
    hosts = job(lambda rank, number: 1500 if rank == number % 4 else 10, steps=9)
    finding = found(diagnosed(tmp_path, *hosts), "input_starvation")
    assert finding.recoverable_ms == pytest.approx(1.5, rel=0.1)
    assert finding.ranks == (0, 1, 2, 3)


def test_steps_are_named_if_not_all_starve(tmp_path):
    hosts = job(lambda _, number: 3000 if number in (2, 4) else 10, steps=7)
    finding = found(diagnosed(tmp_path, *hosts), "input_starvation")
    assert finding.steps == (2, 4)
    assert "in steps 2 and 4, " in finding.sentence


@pytest.mark.parametrize("busy", [0, 3_000])
def test_a_loader_that_also_delays_launches(tmp_path, busy):
    """A ResNet-18: 6.66 s of idle time were said to cost 7.03 s, and nothing said why.

    While the host loads, the GPU is at work for a part of the time: without loading, the host would
    run ahead by that much.
    """
    one = Host()
    for number in range(5):
        with one.step(number):
            one.launch(busy or 1)
            one.does(LOADER, busy + 1_000, cat="user_annotation")
            for _ in range(100):
                one.now += 10
                one.launch(10)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "input_starvation")
    assert (", which also delays later launches: " in finding.sentence) == bool(busy)
    is_more = finding.recoverable_ms > 1.01 * finding.evidence["longest_wait_ms"]
    assert is_more == bool(busy)


def unmarked(waits, *, draws=()):
    """A recording without steps: waits (µs) for batches, some of them right after a seed's draw."""
    one = Host()
    one.launch(10)
    for number, length in enumerate(waits):
        if number in draws:
            one.does("aten::random_", 10)
        one.does(LOADER, length, cat="user_annotation")
        for _ in range(10):
            one.launch(50)
        one.synchronise()
    return one


def test_waits_without_steps_are_not_said_to_be_one(tmp_path):
    """Of a ResNet-18, 15 waits of up to 1.94 s were called one of up to 6.66 s."""
    finding = found(diagnosed(tmp_path, unmarked([500, 900, 700])), "input_starvation")
    said, waits = finding.sentence, finding.evidence["steps"]["idle_ms"].max()
    assert said.startswith(f"The GPU sits idle for {duration(waits * 1e6)} (3 waits of up to 9")
    assert finding.evidence["waits"] == 3
    (tmp_path / "rank-0.json").unlink()
    one = found(diagnosed(tmp_path, unmarked([900])), "input_starvation")
    assert one.sentence.startswith("The GPU sits idle for 8")
    assert "waits of" not in one.sentence


@pytest.mark.parametrize("draws", [(), (0,), (0, 2), (1,)])
def test_the_start_of_workers_is_no_wait_for_data(tmp_path, draws):
    """1.94 of 6.66 s passed until the workers of a ResNet-18 gave the first batch.

    Workers that start again in each epoch, or after the first batch, do cost this time again.
    """
    once = draws == (0,)
    diagnosis = diagnosed(tmp_path, unmarked([3_050, 500, 900, 700], draws=draws))
    finding, first = (found(diagnosis, each) for each in ("input_starvation", "warm_up"))
    assert f"({3 if once else 4} waits of up to {'9' if once else '3'}" in finding.sentence
    assert (first is not None) == once
    if once:
        assert "mostly the start of DataLoader workers" in first.sentence
        assert first.recoverable_ms == pytest.approx(3, rel=0.1)


def test_silent_without_loading(tmp_path):
    assert found(diagnosed(tmp_path, *job(lambda *_: 10)), "input_starvation") is None


def two_load(folder, part):
    """Of four ranks, one loads for a part of the time that another one loads."""
    hosts = job(lambda rank, _: {1: 1500, 2: 1500 * part}.get(rank, 10), steps=3)
    return found(diagnosed(folder, *hosts), "input_starvation").ranks


def most_load(folder, part):
    """Five of seven, or six of eight, ranks load."""
    ranks, loading = {0.714: (7, 5), 0.75: (8, 6)}[part]
    hosts = job(lambda rank, _: 1500 if rank < loading else 10, steps=3, ranks=ranks)
    return found(diagnosed(folder, *hosts), "input_starvation").ranks


def loading_for(folder, percent):
    """All ranks load for this part of the step."""
    us = 8065 * percent / (100 - percent)
    made = diagnosed(folder, *job(lambda *_: us, steps=4, ranks=2, kernel_us=1000))
    return share(made, "input_starvation")


def some_load(folder, part):
    """The last of four steps loads for this part of the mean of all."""
    last = 3_000 * 3 * part / (4 - part)
    hosts = job(lambda _, number: last if number == 3 else 3_000, ranks=1, kernel_us=2_500)
    return found(diagnosed(folder, *hosts), "input_starvation").steps


def much_of_one(folder, part):
    """The last of four steps loads for this part of itself, the others for 18 times as long."""
    last = 1_665 * part / (1 - part)
    hosts = job(lambda _, number: last if number == 3 else 30_000, ranks=1)
    return found(diagnosed(folder, *hosts), "input_starvation").steps


def inside(folder, percent):
    hosts = job(lambda *_: 1500, steps=3, loader=SINGLE, inner=percent / 100)
    return ZOOM in found(diagnosed(folder, *hosts), "input_starvation").sentence


def has_too_few_workers(folder, us):
    """More of them do not hand over a batch faster; GPUs run dry 4 µs after a step begins."""
    finding = found(diagnosed(folder, *job(lambda *_: us, kernel_us=20)), "input_starvation")
    return finding.action.startswith("Give the DataLoader more workers")


test_what_loading_must_cost = least_price(
    "input_starvation",
    "least_percent_with_evidence",
    lambda folder: diagnosed(folder, *job(lambda *_: 1500, steps=3)),
)

test_thresholds = cases(
    Case("Limits.least_percent_with_evidence", loading_for, {2.9: None, 3.1: 3.1}),
    Case("context.HALF_OF_LARGEST", two_load, {0.49: (1,), 0.51: (1, 2)}),
    Case("context.HALF_OF_MEAN", some_load, {0.48: (0, 1, 2), 0.52: (0, 1, 2, 3)}),
    Case("context.MUCH_OF_STEP", much_of_one, {0.145: (0, 1, 2), 0.155: (0, 1, 2, 3)}),
    Case("context.MOST_RANKS", most_load, {0.714: (0, 1, 2, 3, 4), 0.75: tuple(range(8))}),
    Case(
        "input_starvation.HANDING_OVER_NS",
        lambda folder, ns: has_too_few_workers(folder, ns / 1000),
        {950_000: False, 1_050_000: True},
    ),
    Case("Limits.owner_percent", inside, {58: False, 62: True}),
)
