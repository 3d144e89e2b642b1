"""A job on a real dask cluster, one worker of which dies, with and without a nanny."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pytest

from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.opening.open import open_trace

pytestmark = pytest.mark.long

distributed = pytest.importorskip("distributed")

RANKS = 8
ROOT = Path(__file__).parents[2]
START_S = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("job")
    write_sample(path, ranks=RANKS, events=8_000, progress=False)
    return path


@pytest.fixture
def started(tmp_path):
    """Start dask programs; they are stopped after the test."""
    with ExitStack() as stack:

        def start(*arguments):
            log = tmp_path / f"{len(list(tmp_path.glob('*.log')))}.log"
            with log.open("w") as output:
                process = subprocess.Popen(
                    [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=tmp_path,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process, log

        yield start


@pytest.fixture
def cluster(started, tmp_path):
    """Start a scheduler and some workers, and connect to them."""
    scheduler, log = started("scheduler", "--port=0", "--no-dashboard", "--host=127.0.0.1")
    address = said(log, r"Scheduler at:\s+(tcp://\S+)")
    options = ("--nthreads=1", "--no-dashboard", "--host=127.0.0.1", "--death-timeout=60")
    with ExitStack() as stack:

        def connected(workers, nanny):
            processes = [
                started("worker", address, *options, f"--local-directory={tmp_path}", nanny)[0]
                for _ in range(workers)
            ]
            client = distributed.Client(address, timeout=START_S, set_as_default=False)
            stack.enter_context(client).wait_for_workers(workers, timeout=START_S)
            return client, processes

        yield connected
    assert scheduler.poll() is None


def said(log, pattern):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if found := re.search(pattern, log.read_text()):
            return found[1]
        time.sleep(0.05)
    pytest.fail(f"{pattern} was not said in {log.read_text()}")


def killing_after_the_first_rank(client, kill):
    """Start a thread that kills a worker and then ends."""

    def wait_and_kill():
        while not any(client.has_what().values()) and not any(client.processing().values()):
            time.sleep(0.005)
        kill()

    killer = threading.Thread(target=wait_and_kill, daemon=True)
    killer.start()
    return killer


def other_worker(client, dead=None):
    """Wait for a worker that is not the dead one, and return its process id."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        answers = client.run(os.getpid, on_error="return").values()
        if found := [answer for answer in answers if isinstance(answer, int) and answer != dead]:
            return found[0]
        time.sleep(0.05)
    pytest.fail("no worker is started again")


def assert_same(job, expected):
    shares, kernels = temporal_breakdown(job), kernel_breakdown(job)
    pd.testing.assert_frame_equal(shares.ranks, temporal_breakdown(expected).ranks)
    pd.testing.assert_frame_equal(kernels.every_kernel, kernel_breakdown(expected).every_kernel)
    assert job.notices == expected.notices


@pytest.mark.filterwarnings("ignore")  # of distributed, about the worker that dies
@pytest.mark.parametrize("held", [RANKS, 2], ids=["loaded", "reduced"])
def test_a_worker_dies_while_ranks_are_loaded(folder, monkeypatch, cluster, held, caplog):
    expected = open_trace(folder, progress=False)
    monkeypatch.setattr(opening, "RANKS_HELD", held)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)
    client, processes = cluster(2, "--no-nanny")
    killer = killing_after_the_first_rank(client, processes[0].kill)
    job = open_trace(folder, executor=client.get_executor(), progress=False)
    assert_same(job, expected)
    killer.join(START_S)
    assert processes[0].wait(START_S) != 0
    assert len(client.scheduler_info()["workers"]) == 1
    assert "ranks failed (" not in caplog.text


@pytest.mark.filterwarnings("ignore")  # of distributed, about the worker that dies
def test_a_nanny_starts_a_dead_worker_again(folder, monkeypatch, cluster, caplog):
    expected = open_trace(folder, progress=False)
    monkeypatch.setattr(opening, "RANKS_HELD", 2)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)
    client, [nanny] = cluster(1, "--nanny")
    worker = other_worker(client)
    killer = killing_after_the_first_rank(client, lambda: os.kill(worker, signal.SIGKILL))
    job = open_trace(folder, executor=client.get_executor(), progress=False)
    assert_same(job, expected)
    killer.join(START_S)
    assert not killer.is_alive()
    assert other_worker(client, dead=worker) != nanny.pid
    assert nanny.poll() is None
    assert "ranks failed (" not in caplog.text
