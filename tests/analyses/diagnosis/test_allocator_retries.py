"""Memory that is freed and asked for again."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis.scripts import Host, all_reduce, diagnosed, found
from tests.kineto_text import host, step


def job(calls, *, marks=True, steps=6):
    """Two ranks; the second makes calls of the allocator in each step."""
    hosts = [Host(), Host()]
    for number in range(steps):
        begins = [each.now for each in hosts]
        for each in hosts:
            each.launch(500)
        hosts[1].synchronise()
        for name, length in calls(number):
            hosts[1].calls(name, length)
        for each in hosts:
            each.launch(500)
        all_reduce(hosts)
        for each, begin in zip(hosts, begins, strict=True):
            each.synchronise()
            if marks:
                each.events.append(step(number, begin, each.now - begin))
    return hosts


RETRY = [("cudaFree", 200), ("cudaMalloc", 300)]


@pytest.mark.parametrize("marks", [True, False])
def test_a_rank_that_frees_and_allocates(tmp_path, marks):
    finding = found(diagnosed(tmp_path, *job(lambda _: RETRY, marks=marks)), "allocator_retries")
    assert finding.ranks == (1,)
    assert finding.recoverable_ms == pytest.approx(0.5 if marks else 3, rel=0.1)
    assert "500 µs" in finding.sentence if marks else "3 ms" in finding.sentence
    assert set(finding.evidence["owners"]["owner"]) == {"cudaFree", "cudaMalloc"}


def test_initialising_is_no_retry(tmp_path):
    hosts = job(lambda number: RETRY if number == 0 else [])
    assert found(diagnosed(tmp_path, *hosts), "allocator_retries") is None


def test_a_cache_that_grows_frees_nothing(tmp_path):
    hosts = job(lambda _: [("cudaMalloc", 300)])
    assert found(diagnosed(tmp_path, *hosts), "allocator_retries") is None


def test_one_marked_step_is_not_enough(tmp_path):
    hosts = job(lambda number: RETRY if number == 3 else [])
    assert found(diagnosed(tmp_path, *hosts), "allocator_retries") is None


def test_silent_without_calls(tmp_path):
    assert not diagnosed(tmp_path, *job(lambda _: []))


def test_the_call_inside_which_memory_is_freed_is_named(tmp_path):
    hosts = job(lambda _: RETRY)
    for event in list(hosts[1].events):
        if event["name"] == "cudaFree":
            hosts[1].events.append(host(event["ts"], 500, "model.py(12): resize"))
            hosts[1].events[-1]["cat"] = "python_function"
    sentence = found(diagnosed(tmp_path, *hosts), "allocator_retries").sentence
    assert ", all of this time inside model.py(12): resize: 5" in sentence
