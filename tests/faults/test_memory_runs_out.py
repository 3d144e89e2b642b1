"""Where memory runs out, one error says so and what to do."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest

from hta_widgets import open_trace
from hta_widgets.cli import USER_ERROR, main
from hta_widgets.errors import OutOfMemoryError, TraceFormatError
from hta_widgets.panels import KernelBreakdownPanel
from hta_widgets.sample import write_sample
from hta_widgets.trace.loaders.kineto import load as kineto_load
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.ranks import loading
from hta_widgets.trace.ranks.workers import results
from tests.kineto_text import call, kernel, write
from tests.serving import ROOT

EVENTS = [event for n in range(4) for event in (call(9 * n, 1, n), kernel(9 * n, 3, correlation=n))]
WHAT_TO_DO = r"open fewer ranks, such as open_trace\(…, ranks=\[0\]\)"


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "rank-0.json", EVENTS)


def exhausted(*_, **__):
    raise MemoryError


def too_much(_rank=None):
    return np.zeros(1 << 58)


HERE = threading.get_ident()


def too_much_elsewhere(number):
    if threading.get_ident() != HERE:
        raise MemoryError
    return 2 * number


@pytest.mark.parametrize("what", ["decode_events", "base_ns"])
def test_while_a_trace_is_loaded(path, monkeypatch, what):
    monkeypatch.setattr(kineto_load, what, exhausted)
    with pytest.raises(OutOfMemoryError, match=f"memory ran out .*rank-0.json; {WHAT_TO_DO}"):
        open_trace(path, progress=False).load(progress=False)


def test_while_its_launches_are_found(path, monkeypatch):
    monkeypatch.setattr(loading.cache, "WORTH_KEEPING", 0)
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(path.parent / "cache"))
    monkeypatch.setattr(loading, "launch_rows", exhausted)
    with pytest.raises(OutOfMemoryError, match=r"rank-0\.json"):
        open_trace(path, progress=False).load(progress=False)


def test_while_it_is_analysed(path):
    job = open_trace(path, progress=False)
    for ask in (
        lambda: job.reduce(too_much, [0]),
        lambda: job.reduce_each(too_much, {0: ()}),
        lambda: job.remember(too_much),
        lambda: job.rank(0).remember(too_much),
    ):
        with pytest.raises(OutOfMemoryError, match=f"analysing the traces .*{WHAT_TO_DO}") as said:
            ask()
        assert isinstance(said.value.__cause__, MemoryError)
        assert str(said.value).count("memory ran out") == 1
    assert job.reduce(events_of, [0]) == {0: 8}


def events_of(rank):
    return len(rank.trace.events)


def test_in_a_panel(path, monkeypatch):
    panel = KernelBreakdownPanel(open_trace(path, progress=False))
    monkeypatch.setattr(KernelBreakdownPanel, "analyse", exhausted)
    panel.num_kernels = 3
    assert panel._view["error"].startswith("memory ran out while")
    monkeypatch.undo()
    panel.num_kernels = 4
    assert panel._view["error"] is None


def test_on_the_command_line(path, monkeypatch, capsys):
    monkeypatch.setattr(kineto_load, "decode_events", exhausted)
    assert main(["diagnose", str(path)]) == USER_ERROR
    said = capsys.readouterr().err
    assert said.startswith("hta-widgets: memory ran out while")
    assert "Traceback" not in said


class TestWorkers:
    def test_what_was_too_much_for_some_at_once_is_done_one_by_one(self, caplog):
        with ThreadPoolExecutor(2) as threads:
            done = dict(results(too_much_elsewhere, {n: (n,) for n in range(4)}, threads))
        assert done == {n: 2 * n for n in range(4)}
        assert "MemoryError" in caplog.text
        assert "use fewer workers" in caplog.text

    def test_what_is_too_much_for_one_is_said(self, tmp_path, monkeypatch):
        write_sample(tmp_path, ranks=3, steps=2, progress=False)
        monkeypatch.setattr(opening, "RANKS_HELD", 1)
        monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)
        with ThreadPoolExecutor(2) as threads:
            job = open_trace(tmp_path, progress=False, executor=threads)
            with pytest.raises(OutOfMemoryError, match=WHAT_TO_DO):
                job.reduce(too_much, job.ranks)
            assert set(job.reduce(events_of, job.ranks)) == {0, 1, 2}

    def test_other_errors_are_raised_at_once(self):
        calls = count()

        def refuse(_):
            next(calls)
            msg = "no trace"
            raise TraceFormatError(msg)

        with ThreadPoolExecutor(1) as threads, pytest.raises(TraceFormatError, match="no trace"):
            dict(results(refuse, {0: (0,)}, threads))
        assert next(calls) == 1


LIMITED = """
import resource, sys
from pathlib import Path
from hta_widgets import open_trace
from hta_widgets.errors import OutOfMemoryError
from hta_widgets.trace.loaders.kineto.load import load_kineto
load_kineto(Path(sys.argv[2]), 0)
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    open_trace(sys.argv[1], progress=False).load(progress=False)
except OutOfMemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc of Linux")
def test_a_process_that_may_take_no_more(tmp_path):
    write_sample(tmp_path / "long", ranks=1, steps=2, progress=False)
    small = write(tmp_path / "small.json", EVENTS)
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "long"), str(small)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "memory ran out while loading" in done.stdout
