"""Copies that hold up the GPU."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.diagnosis.facts.gap_owners import HotPath
from hta_widgets.diagnosis.facts.host_facts import CopiesOfName, HostCopies
from tests.diagnosis.findings.scripts import Host, all_reduce, diagnosed, found, step_of
from tests.diagnosis.findings.thresholds import Case, cases, least_price, price

TO_DEVICE = "Memcpy HtoD (Pageable -> Device)"
TO_HOST = "Memcpy DtoH (Device -> Pinned)"


def job(name, length, *, stream=7, ahead=False, steps=5, size=8_000_000):
    """One rank that copies in each step, and computes for 2 ms."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            if length:
                before = one.free
                one.launch(length, name=name, cat="gpu_memcpy", stream=stream, bytes=size)
                one.free = before if ahead else one.free
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    return one


def test_a_batch_that_is_copied_first(tmp_path):
    finding = found(diagnosed(tmp_path, job(TO_DEVICE, 1000)), "slow_host_copies")
    assert finding.recoverable_ms == pytest.approx(1, rel=0.05)
    assert "8 MB per step at 8 GB/s (Memcpy HtoD (Pageable -> Device))" in finding.sentence
    assert finding.evidence["copies"]["exposed_ms"].tolist() == [4]


@pytest.mark.parametrize(
    ("major", "link", "left_ms"),
    [
        (None, None, None),
        (6, "PCIe 3, 12 GB/s", 8 / 12),
        (7, "PCIe 3, 12 GB/s", 8 / 12),
        (8, "PCIe 4, 24 GB/s", 8 / 24),
        (9, "PCIe 5, 50 GB/s", 8 / 50),
        (12, "PCIe 5, 50 GB/s", 8 / 50),
    ],
)
def test_copies_from_pinned_memory_take_time_too(tmp_path, major, link, left_ms):
    """Of 361 ms in a program that copies in, computes and copies out, 83 are left."""
    gpu = major and {"name": "some GPU", "computeMajor": major}
    finding = found(diagnosed(tmp_path, job(TO_DEVICE, 2000), gpu=gpu), "slow_host_copies")
    assert finding.evidence.get("link") == link
    assert finding.less_by == ("link" if link else "")
    assert finding.recoverable_ms == pytest.approx(2, rel=0.05)
    assert finding.lower_ms == pytest.approx(2 - (left_ms or 0), rel=0.05)
    assert (" ms to 1.99 ms of each " in finding.sentence) is bool(link)
    assert finding.confidence == "measured"


@pytest.mark.parametrize(
    ("size", "name"), [(8_000_000, TO_HOST), (0, TO_DEVICE), (46_000_000, TO_DEVICE)]
)
def test_no_range_where_the_link_is_no_limit_or_is_reached(tmp_path, size, name):
    """Copies of pinned memory are as fast as they get, as pageable ones at 23 of 24 GB/s."""
    made = diagnosed(tmp_path, job(name, 2000, size=size), gpu={"computeMajor": 8})
    finding = found(made, "slow_host_copies")
    assert finding.less_by == ""
    assert "up to 1.99 ms of each" in finding.sentence


def test_copies_that_need_not_be_have_no_link(tmp_path):
    finding = copied_first(tmp_path, 10, gpu={"computeMajor": 8})
    assert advises_to_record_later(finding)
    assert finding.less_by == ""


def copied_first(folder, copies, *, first_us=700, later_us=300, gpu=None):
    """A finding on so many copies before the first kernel, and one after it."""
    one = Host()
    for _ in range(copies):
        length = 10 * first_us / copies
        one.launch(length, name=TO_DEVICE, cat="gpu_memcpy", bytes=80_000_000 // copies)
    one.launch(5_000, operator="aten::mm")
    one.launch(10 * later_us, name=TO_DEVICE, cat="gpu_memcpy", bytes=80_000_000)
    one.launch(5_000, operator="aten::mm")
    return found(diagnosed(folder, one, gpu=gpu), "slow_host_copies")


def advises_to_record_later(finding):
    return finding.advice[0].do.startswith("If the program copies its model once")


@pytest.mark.parametrize(("first_us", "later_us", "said"), [(700, 300, "70 %"), (300, 700, "")])
def test_a_model_that_is_copied_once_is_not_the_price_of_each_step(
    tmp_path, first_us, later_us, said
):
    """4.46 s in which 13.6 GB of parameters were copied were to be won with pinned memory."""
    finding = copied_first(tmp_path, 10, first_us=first_us, later_us=later_us)
    assert (f", {said} of it before the first kernel" in finding.sentence) is bool(said)
    assert advises_to_record_later(finding) is bool(said)


test_thresholds_of_models = cases(
    Case(
        "slow_host_copies.FEWEST_PARAMETERS",
        lambda folder, copies: advises_to_record_later(copied_first(folder, copies)),
        {3: False, 4: True},
    ),
)


def both_ways(folder, part, *, computes_us=2000):
    """Whether both kinds of copies are told if the longer ones have this part of the time."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for name, length in ((TO_DEVICE, 3000 * part), (TO_HOST, 3000 * (1 - part))):
                one.launch(length, name=name, cat="gpu_memcpy", bytes=8_000_000)
            for _ in range(10):
                one.launch(computes_us / 10)
            one.synchronise()
    finding = found(diagnosed(folder, one), "slow_host_copies")
    assert finding.recoverable_ms == pytest.approx(3, rel=0.05)
    told = [f"GB/s ({each})" in finding.sentence for each in (TO_DEVICE, TO_HOST)]
    assert told[0]
    return told[1]


@pytest.mark.parametrize("computes_us", [2_000, 60_000])
def test_both_ways_are_told_where_each_costs(tmp_path, computes_us):
    """805 MB at 2.97 GB/s, “361 ms”: they take 271, the rest was copied the other way.

    In a longer step as well: 738 MB at 2.58 GB/s take 286 ms of 425, in 6.51 s.
    """
    assert both_ways(tmp_path, 0.7, computes_us=computes_us)


def test_the_code_that_asks_for_the_copies_is_named(tmp_path):
    one = Host()
    for number in range(5):
        with one.step(number):
            with one.inside("train.py(9): move", "python_function"):
                one.now += 5
                one.launch(
                    1000, name=TO_DEVICE, cat="gpu_memcpy", bytes=8_000_000, operator="aten::to"
                )
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "slow_host_copies")
    assert "all of this time inside aten::to (train.py(9): move)" in finding.sentence


def test_copies_to_the_host(tmp_path):
    finding = found(diagnosed(tmp_path, job(TO_HOST, 1000)), "slow_host_copies")
    assert finding.recoverable_ms == pytest.approx(1, rel=0.05)


def test_a_server_that_samples_on_its_host_waits_for_the_logits(tmp_path):
    """The copy has its own price, not that of the sampling that runs ahead without the wait."""
    one = Host()
    for _ in range(8):
        with one.inside("execute_context_0(0)_generation_16(16)", "user_annotation"):
            for _ in range(10):
                one.launch(200)
        one.reads("aten::copy_", 400)
        one.does("aten::multinomial", 2_000)
    every = {each.cause: each.recoverable_ms for each in diagnosed(tmp_path, one)}
    assert every["slow_host_copies"] == pytest.approx(0.4, rel=0.1)
    assert every["step_gap"] == pytest.approx(2, rel=0.1)


def test_a_copy_that_nothing_waits_for(tmp_path):
    """On a stream of its own, beside kernels."""
    one = job(TO_DEVICE, 1000, stream=9, ahead=True)
    assert found(diagnosed(tmp_path, one), "slow_host_copies") is None


def test_numbers_that_are_read(tmp_path):
    assert found(diagnosed(tmp_path, job(TO_HOST, 90)), "slow_host_copies") is None


def test_silent_without_copies(tmp_path):
    assert not diagnosed(tmp_path, job("", 0))


def followed(folder, us):
    """A copy on a stream of its own, which a kernel waits for and follows so much later."""
    one = Host()
    for number in range(3):
        with one.step(number):
            one.launch(1000, name=TO_DEVICE, cat="gpu_memcpy", stream=9, bytes=8_000_000)
            one.calls("cudaStreamWaitEvent", 1)
            one.free += us
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    return price(diagnosed(folder, one), "slow_host_copies")


def numbers(folder, us):
    """Ten copies to the host a step."""
    one = Host()
    for number in range(3):
        with one.step(number):
            for _ in range(10):
                one.launch(200)
                one.launch(us, name=TO_HOST, cat="gpu_memcpy", bytes=8000)
            one.synchronise()
    return price(diagnosed(folder, one), "slow_host_copies")


def of_two(folder, percent):
    """A rank copies for 4 % of the step, another one for a smaller part.

    The host takes 10 µs to launch a copy, and the kernels begin after it.
    """
    hosts = [Host(), Host()]
    for number in range(3):
        with step_of(hosts, number):
            for each, part in zip(hosts, (4, percent), strict=True):
                each.launch(100 * part, name=TO_DEVICE, cat="gpu_memcpy", bytes=8_000_000)
                for _ in range(10):
                    each.launch(955)
            all_reduce(hosts)
    return price(diagnosed(folder, *hosts), "slow_host_copies")


test_what_copies_must_cost = least_price(
    "slow_host_copies",
    "least_percent_with_evidence",
    lambda folder: diagnosed(folder, job(TO_DEVICE, 1000, steps=3)),
)

test_thresholds = cases(
    Case(
        "host_facts.FOLLOWED_NS",
        lambda folder, ns: followed(folder, ns / 1000),
        {50_000: 1.0, 50_001: None},
    ),
    Case(
        "host_facts.LONG_NS",
        lambda folder, ns: numbers(folder, ns / 1000),
        {100_000: None, 100_001: 0.95},
    ),
    Case("slow_host_copies.TOLD", both_ways, {0.89: True, 0.91: False}),
    Case("Limits.host_copies_percent", of_two, {1.98: None, 2.02: 0.4 - 0.01}),
)


def test_a_gpu_that_mostly_copies_is_bound_by_that(tmp_path):
    """It was bound by the GPU, which sounds like kernels: 69 % of the time of a CUTLASS program."""
    one = Host()
    for _ in range(5):
        one.launch(300)
        one.reads("aten::to", 1000)
    assert diagnosed(tmp_path, one).bound_by.startswith("bound by copying (7")


def go_there_and_back(_, count, share=1.0):
    """Whether so many copies of each way are of the same data; those back have part of the size."""
    ways = ((TO_DEVICE, 1.0), (TO_HOST, share))
    each = [
        CopiesOfName(name, count, round(1_000_000 * part), 1_000_000, 1_000_000)
        for name, part in ways
    ]
    return HostCopies(np.zeros(1, dtype=np.int64), tuple(each), HotPath()).go_there_and_back


def test_copies_of_one_way_do_not_return():
    one_way = CopiesOfName(TO_DEVICE, 50, 1_000_000, 1_000_000, 1_000_000)
    assert not HostCopies(np.zeros(1, dtype=np.int64), (one_way,), HotPath()).go_there_and_back


test_thresholds_of_returns = cases(
    Case("host_facts.FEWEST_RETURNS", go_there_and_back, {9: False, 10: True}),
    Case(
        "host_facts.ALIKE",
        lambda folder, share: go_there_and_back(folder, 50, share),
        {0.89: False, 0.91: True},
    ),
)
