"""Tasks are not lost when workers die."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.ranks import workers
from hta_widgets.trace.ranks.workers import results


def doubled(number):
    return 2 * number


def killed_once(number, marker, survivor):
    """Kill the first worker that runs this."""
    if os.getpid() != survivor and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def killed_unless(number, survivor):
    """Kill every process but one."""
    if os.getpid() != survivor:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def done_by(_number):
    """Take as long as another process may need to start."""
    time.sleep(0.3)
    return os.getpid(), threading.get_ident()


HERE = os.getpid(), threading.get_ident()


def no_trace(path):
    msg = f"{path} is not a trace"
    raise TraceFormatError(msg)


def tasks(*arguments):
    return {number: (number, *arguments) for number in range(4)}


DOUBLED = {number: 2 * number for number in range(4)}


def test_processes_of_this_machine():
    assert dict(results(doubled, tasks())) == DOUBLED


def test_they_start_no_threads_for_algebra():
    """One spinning thread per CPU in every process would slow down all of them."""
    for start in (workers.default_executor, workers.fresh_executor):
        assert start().submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"


def test_this_process_does_the_last_tasks_meanwhile(monkeypatch):
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    who = dict(results(done_by, {number: (number,) for number in range(8)}))
    others = {number for number, process in who.items() if process != HERE}
    assert others == set(range(len(others)))
    assert workers.AHEAD <= len(others) < 8
    assert len({who[number] for number in others}) == 1


def test_the_last_task_waits_for_no_process_that_is_at_work(monkeypatch):
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    who = dict(results(done_by, {number: (number,) for number in range(2)}))
    assert who[0] != HERE
    assert who[1] == HERE


def test_this_process_may_do_it_in_another_way(monkeypatch):
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    answers = dict(results(doubled, tasks(), here=str))
    assert (answers[0], answers[1], answers[3]) == (0, 2, "3")
    assert answers[2] in (4, "2")


def test_this_process_only_waits_for_an_executor_that_it_is_given():
    with ThreadPoolExecutor(1) as executor:
        who = dict(results(done_by, tasks(), executor))
    assert HERE not in who.values()


def test_an_executor_of_any_kind():
    with ThreadPoolExecutor(2) as executor:
        assert dict(results(doubled, tasks(), executor)) == DOUBLED


def test_a_dead_worker_is_replaced(tmp_path, caplog):
    done = results(killed_once, tasks(str(tmp_path / "died"), os.getpid()))
    assert dict(done) == DOUBLED
    assert (tmp_path / "died").exists()
    assert "ranks failed (" in caplog.text


def test_without_any_living_worker_it_is_done_here(caplog):
    assert dict(results(killed_unless, tasks(os.getpid()))) == DOUBLED
    assert caplog.text.count("ranks failed (") == 2


def test_an_executor_that_is_shut_down_is_replaced(caplog):
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    assert dict(results(doubled, tasks(), executor)) == DOUBLED
    assert "cannot schedule new futures" in caplog.text


def test_the_error_of_a_task_is_raised_as_it_is():
    with pytest.raises(TraceFormatError, match=r"^a\.json is not a trace$") as raised:
        list(results(no_trace, {0: ("a.json",)}))
    assert raised.value.__cause__ is None
