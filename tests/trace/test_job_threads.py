"""Threads that share a job: the cells of a notebook and its panels."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import pytest

from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace

THREADS = 4


@pytest.fixture
def job(tmp_path):
    write_sample(tmp_path, ranks=2, steps=2, progress=False)
    return Job(open_trace(tmp_path, progress=False).sources, name="sample")


def at_once(function):
    """Call a function in several threads at the same time and return all results."""
    start = Barrier(THREADS)

    def call(_: int):
        start.wait()
        return function()

    with ThreadPoolExecutor(THREADS) as threads:
        return [*threads.map(call, range(THREADS))]


@pytest.mark.parametrize(
    "ask",
    [
        lambda job: job.rank(1),
        lambda job: job.load().rank(1),
        lambda job: job.reduce(lambda rank: rank, [1])[1],
    ],
    ids=["rank", "load", "reduce"],
)
def test_a_rank_is_loaded_once(job, ask, monkeypatch):
    loaded, load = [], job._loader.load_here

    def counted(source, rank, *others):
        loaded.append(rank)
        return load(source, rank, *others)

    monkeypatch.setattr(job._loader, "load_here", counted)
    assert len({*at_once(lambda: ask(job))}) == 1
    assert loaded.count(1) == 1


def test_what_is_remembered_is_built_once(job):
    def build(_):
        sleep(0.05)
        return object()

    assert len({*at_once(lambda: job.remember(build))}) == 1


def test_a_rank_that_is_held_stays_so_while_others_ask(job):
    def ask():
        return {job.rank(number % 2) for number in range(2_000)}

    job.load(progress=False)
    held = {job.rank(0), job.rank(1)}
    switched_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert at_once(ask) == [held] * THREADS
    finally:
        sys.setswitchinterval(switched_s)
