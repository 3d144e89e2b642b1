"""Where neither processes nor threads can be started, a job has the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hta_widgets.numpy_on_wasm import accepting_64_bits
from hta_widgets.sample import write_sample
from hta_widgets.trace.cache import files
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import loader, workers
from tests.conftest import REAL_TRACES
from tests.wasm.all_numbers import all_numbers

SEVERAL_RANKS = ("kineto/dlrm_2rank",)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "trace"
    write_sample(folder, ranks=2, steps=3, events=3000)
    return folder


def restricted(path, **environment):
    """All numbers as such a Python has them, and what it says on the way."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.wasm.restricted", path],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), run.stderr


def in_workers(path, monkeypatch):
    """All numbers by this Python, whose workers load the ranks."""
    asked = []
    results = workers.results
    monkeypatch.setattr(loader, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    monkeypatch.setattr(workers, "results", lambda *all_: asked.append(1) or results(*all_))
    monkeypatch.setenv(files.VARIABLE, "off")
    found = all_numbers(path)
    assert asked
    return found


@pytest.mark.long
def test_several_ranks_of_the_sample(sample, monkeypatch):
    expected = in_workers(sample, monkeypatch)
    found, said = restricted(sample, HTA_WIDGETS_CACHE="off")
    assert len(expected["findings"]) > 1
    assert found == expected
    assert said == ""


@pytest.mark.long
def test_the_cache_on_disk(sample, tmp_path, monkeypatch):
    """Also what such a Python has written itself."""
    expected = in_workers(sample, monkeypatch)
    for _ in range(2):
        assert restricted(sample, HTA_WIDGETS_CACHE=str(tmp_path))[0] == expected


@pytest.mark.parametrize("job", SEVERAL_RANKS)
def test_several_ranks_of_a_real_trace(job, monkeypatch):
    if not REAL_TRACES.is_dir():
        pytest.skip("no real traces")
    expected = in_workers(REAL_TRACES / job, monkeypatch)
    assert restricted(REAL_TRACES / job, HTA_WIDGETS_CACHE="off")[0] == expected


def test_a_job_too_big_to_hold_asks_no_workers(sample, monkeypatch):
    """Its ranks are loaded here, one after the other."""
    monkeypatch.setattr(workers, "processes_start", lambda: False)
    monkeypatch.setattr("hta_widgets.trace.opening.open.RANKS_HELD", 1)
    monkeypatch.setattr("hta_widgets.trace.opening.open.BYTES_AT_ONCE", 0)
    monkeypatch.setattr(workers, "results", None)
    job = open_trace(sample, progress=False)
    assert job.too_many_to_hold()
    assert job.reduce(recorded_rank, job.ranks) == {0: 0, 1: 1}


def recorded_rank(rank):
    return rank.trace.rank


def test_an_executor_whose_threads_do_not_start(sample, monkeypatch, caplog):
    """As one that is given in a browser: this process loads the ranks, and says so."""
    monkeypatch.setattr("threading.Thread.start", cannot_start)
    monkeypatch.setattr(workers, "fresh_executor", cannot_start)
    with ThreadPoolExecutor(2) as executor:
        job = open_trace(sample, executor=executor, progress=False)
    assert job.ranks == (0, 1)
    assert "can't start new thread" in caplog.text


def cannot_start(*_arguments):
    msg = "can't start new thread"
    raise RuntimeError(msg)


@pytest.mark.parametrize(("platform", "folder"), [("emscripten", None), ("linux", "kept")])
def test_files_of_a_browser_are_memory_so_nothing_is_cached(
    platform, folder, monkeypatch, tmp_path
):
    monkeypatch.delenv(files.VARIABLE, raising=False)
    monkeypatch.setattr(files.sys, "platform", platform)
    monkeypatch.setattr(files.platformdirs, "user_cache_path", lambda *_, **__: tmp_path / "kept")
    assert files.cache_folder() == (folder and tmp_path / folder)
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "chosen"))
    assert files.cache_folder() == tmp_path / "chosen"


def test_numpy_of_32_bits_is_given_positions_that_fit():
    """As it is in a browser, where it refuses to shorten those of 64 bits itself."""
    seen = []

    def of_32_bits(function, positions):
        def refusing(*arguments, out=None, **named):
            seen.append(arguments[positions].dtype)
            if out is not None and arguments[0].dtype != out.dtype:
                pytest.fail("an output of another type")
            return function(*arguments, **named, **({} if out is None else {"out": out}))

        return accepting_64_bits(refusing, positions)

    counts, values = np.array([0, 2, 1]), np.array([7, 8, 9], dtype=np.int32)
    assert of_32_bits(np.repeat, 1)(values, counts).tolist() == [8, 8, 9]
    assert of_32_bits(np.bincount, 0)([0, 2, 2], minlength=4).tolist() == [1, 0, 2, 0]
    out = np.zeros(3, dtype=np.int64)
    of_32_bits(np.take, 1)(values, counts, out=out, mode="clip")
    assert out.tolist() == [7, 9, 8]
    assert seen == [np.intp] * 3
