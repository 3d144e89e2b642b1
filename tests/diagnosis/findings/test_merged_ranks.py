"""A file with the events of several ranks, as tools that merge traces for a viewer write it."""

from __future__ import annotations

import pytest

from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import health_of
from tests.diagnosis.findings.scripts import ALL_REDUCE, Host, diagnosed
from tests.kineto_text import write


def slow(process=100, first=0):
    """A host that is launch-bound: 40 launches of 30 µs for kernels of 5."""
    one = Host()
    for _ in range(40):
        one.launch(5)
        one.now += 30
    for each in one.events:
        if each.get("cat") in ("cuda_runtime", "cpu_op", "user_annotation"):
            each["pid"] = process
        if "correlation" in each.get("args", {}):
            each["args"]["correlation"] += first
    return one


def merged():
    both = slow()
    both.events = [*both.events, *slow(process=200_000_100, first=1000).events]
    return both


def test_nothing_is_told_of_a_file_of_two_ranks(tmp_path):
    made = diagnosed(tmp_path, merged())
    assert made.health.doubts[0] == "a file is merged from several ranks"
    assert not made
    assert made.finding == (
        "No cause can be named: a file is merged from several ranks. "
        "Open the traces of the ranks instead."
    )
    assert not made.not_recorded
    assert made.bound_by == ""
    assert any("2 processes launch the GPU work" in notice for notice in made.notices)


def stepping(process, late):
    """A rank of six steps of 1 ms, somewhat later than others, with a collective in each."""
    one = Host()
    one.now += late
    for number in range(9, 15):
        with one.step(number):
            one.launch(100)
            one.queue(800, name=ALL_REDUCE, stream=20)
            one.now += 990
    for each in one.events:
        if each.get("cat") in ("cuda_runtime", "cpu_op", "user_annotation"):
            each["pid"] = process
        if "correlation" in each.get("args", {}):
            each["args"]["correlation"] += process
    return one


def test_the_last_step_ends_for_all_ranks_where_it_begins_for_the_first(tmp_path):
    """Steps of 47 ms had a mean of 32.7, as 6.5 ms of the last one on the last rank counted.

    Nor are other ranks said to be missing: all were in the file.
    """
    both = stepping(100, 300)
    both.events = [*both.events, *stepping(200_000_100, 0).events]
    made = diagnosed(tmp_path, both)
    assert made.steps["step"].tolist() == [9, 10, 11, 12, 13]
    assert made.step_ns == pytest.approx(0.9e6, rel=0.05)
    assert not any("is communication" in each for each in made.notices)


def test_a_file_of_one_process_is_a_rank(tmp_path):
    made = diagnosed(tmp_path, slow())
    assert made.health.doubts == ()
    assert [each.confidence for each in made] == ["measured"]


def test_processes_that_launch_nothing_do_not_count(tmp_path):
    one = slow()
    one.events.append({**one.events[0], "pid": 7, "name": "worker", "cat": "cpu_op", "args": {}})
    job = open_trace(write(tmp_path / "rank-0.json", one.events), progress=False)
    assert job.reduce(health_of, [0])[0].processes == 1
