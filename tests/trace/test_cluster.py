"""A job on a real cluster of dask, one worker of which dies meanwhile."""

from __future__ import annotations

import os
import re
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
from hta_widgets.trace import open as opening
from hta_widgets.trace.open import open_trace

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
    """Start programs of dask; they end with the test."""
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
    scheduler, log = started("scheduler", "--port=0", "--no-dashboard", "--host=127.0.0.1")
    address = said(log, r"Scheduler at:\s+(tcp://\S+)")
    options = ("--nthreads=1", "--no-dashboard", "--host=127.0.0.1", "--death-timeout=60")
    processes = [
        started("worker", address, *options, f"--local-directory={tmp_path}", "--no-nanny")[0]
        for _ in range(2)
    ]
    with distributed.Client(address, timeout=START_S, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=START_S)
        yield client, processes
    assert scheduler.poll() is None


def said(log, pattern):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if found := re.search(pattern, log.read_text()):
            return found[1]
        time.sleep(0.05)
    pytest.fail(f"{pattern} was not said in {log.read_text()}")


def kill_after_the_first_rank(client, process, killed):
    while not any(client.has_what().values()) and not any(client.processing().values()):
        time.sleep(0.005)
    process.kill()
    killed.set()


@pytest.mark.filterwarnings("ignore")  # of distributed, about the worker that dies
@pytest.mark.parametrize("held", [RANKS, 2], ids=["loaded", "reduced"])
def test_a_worker_dies_while_ranks_are_loaded(folder, monkeypatch, cluster, held, caplog):
    expected = open_trace(folder, progress=False)
    monkeypatch.setattr(opening, "RANKS_HELD", held)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)
    client, processes = cluster
    killed = threading.Event()
    killer = threading.Thread(
        target=kill_after_the_first_rank, args=(client, processes[0], killed), daemon=True
    )
    killer.start()
    job = open_trace(folder, executor=client.get_executor(), progress=False)
    results = [analysis(job) for analysis in (temporal_breakdown, kernel_breakdown)]
    killer.join(START_S)
    assert killed.is_set()
    assert processes[0].wait(START_S) != 0
    pd.testing.assert_frame_equal(results[0].ranks, temporal_breakdown(expected).ranks)
    pd.testing.assert_frame_equal(results[1].every_kernel, kernel_breakdown(expected).every_kernel)
    assert job.notices == expected.notices
    assert len(client.scheduler_info()["workers"]) == 1
    assert "lost by their workers" not in caplog.text
