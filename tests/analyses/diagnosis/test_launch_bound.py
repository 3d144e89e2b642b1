"""A host that launches too slowly."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import Limits
from hta_widgets.diagnosis.analysis import _facts_of_all
from tests.analyses.diagnosis.scripts import Host, all_reduce, diagnosed, found
from tests.analyses.diagnosis.thresholds import Case, cases, least_price
from tests.kineto_text import call, host, step


def job(takes, *, steps=5, ranks=1, **work):
    """Long kernels, then a hundred short ones, each launched by an operator that takes so long."""
    hosts = [Host() for _ in range(ranks)]
    for number in range(steps):
        begins = [each.now for each in hosts]
        for rank, each in enumerate(hosts):
            for _ in range(5):
                each.launch(200)
            each.synchronise()
            with each.inside("Optimizer.step#AdamW.step"):
                for _ in range(100):
                    each.launch(2, operator="aten::mul", takes=takes(rank), **work)
        if ranks > 1:
            all_reduce(hosts)
        for each, begin in zip(hosts, begins, strict=True):
            each.synchronise()
            each.events.append(step(number, begin, each.now - begin))
    return hosts


def test_a_slow_host(tmp_path):
    finding = found(diagnosed(tmp_path, *job(lambda _: 15)), "launch_bound")
    assert finding.recoverable_ms == pytest.approx(1.3, rel=0.1)
    assert finding.steps == (0, 1, 2, 3)
    assert finding.action.startswith("Use CUDA graphs")
    assert "105 kernels per step" in finding.sentence
    assert "in AdamW (100 kernels of 2 µs)" in finding.sentence
    row = finding.evidence["launching"].iloc[0]
    assert row["region"] == "AdamW"
    assert row["region_percent"] > 90
    assert row["median_launch_us"] == 4


def test_a_region_that_only_copies_has_no_kernels(tmp_path):
    copies = {"name": "Memcpy DtoD (Device -> Device)", "cat": "gpu_memcpy"}
    finding = found(diagnosed(tmp_path, *job(lambda _: 15, **copies)), "launch_bound")
    assert "of it in AdamW: " in finding.sentence


def test_the_slow_rank_is_blamed(tmp_path):
    hosts = job(lambda rank: 30 if rank == 1 else 3, ranks=4)
    finding = found(diagnosed(tmp_path, *hosts), "launch_bound")
    assert finding.ranks == (1,)
    assert finding.sentence.startswith("Rank 1 launches")


def test_the_limit_can_be_changed(tmp_path):
    hosts = job(lambda _: 15)
    limits = Limits(least_percent=60)
    assert found(diagnosed(tmp_path, *hosts, limits=limits), "launch_bound") is None


def test_a_host_that_is_just_too_slow(tmp_path):
    """Each launch begins while the kernel before runs, but that is done before the next starts."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(10):
                one.launch(20, takes=40)
            for _ in range(200):
                one.launch(4, takes=6)
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert finding.recoverable_ms == pytest.approx((10 * 20 + 200 * 2) / 1000, rel=0.1)


def test_silent_where_the_host_is_ahead(tmp_path):
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(50):
                one.launch(100)
            one.synchronise()
    assert not diagnosed(tmp_path, one)


@pytest.mark.parametrize(("takes", "cost_ms"), [(8, 0.5), (3, 0)])
def test_a_host_that_is_busy_all_the_time_with_short_kernels(tmp_path, takes, cost_ms):
    """The GPU is behind at all times, but starting so many kernels takes long, too."""
    one = Host(starting=2)
    for number in range(5):
        with one.step(number):
            for _ in range(50):
                one.launch(30)
            for _ in range(250):
                one.launch(2, takes=takes)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "launch_bound")
    assert (finding.recoverable_ms if finding else 0) == pytest.approx(cost_ms, rel=0.2)


def test_a_host_that_waits_for_a_place_in_the_queue_is_not_slow(tmp_path):
    one = Host(starting=2)
    for number in range(5):
        with one.step(number):
            for _ in range(500):
                one.launch(10, takes=3)
            length = one.free - one.now - 100
            one.events.append(call(one.now, length, 10_000 + number))
            one.now += length
    assert found(diagnosed(tmp_path, one), "launch_bound") is None


def region_of(folder, part):
    """The part of the program that is named, if one inside another has a part of its time."""
    one = Host()
    for number in range(3):
        with one.step(number):
            one.launch(1000)
            one.synchronise()
            with one.inside("outer"):
                for place in range(100):
                    if place == 100 - round(100 * part):
                        begin = one.now
                    one.launch(2, operator="aten::mul", takes=15)
                one.events.append(host(begin, one.now - begin, "inner", cat="user_annotation"))
            one.synchronise()
    sentence = found(diagnosed(folder, one), "launch_bound").sentence
    return "inner" if "in inner" in sentence else "outer"


def has_region(folder, part):
    """Whether a region is named where the GPU waits a part of 10 ms for launches."""
    one = Host()
    with one.inside("region"):
        one.launch(10_000 * (1 - part) / 2)
        one.synchronise()
        one.now = one.free + 10_000 * part - 6
        one.launch(10_000 * (1 - part) / 2)
    made = diagnosed(folder, one)
    return made.job.remember(_facts_of_all, Limits().trials)[0].host.launching.region is not None


test_what_slow_launches_must_cost = least_price(
    "launch_bound", "least_percent", lambda folder: diagnosed(folder, *job(lambda _: 15, steps=3))
)

test_thresholds = cases(
    Case("host_facts.DOMINATES", region_of, {0.58: "outer", 0.62: "inner"}),
    Case("host_facts.WORTH_NAMING", has_region, {0.0099: False, 0.0101: True}),
)
