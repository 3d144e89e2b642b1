"""The cache is optional: whatever is wrong with it, traces open."""

from __future__ import annotations

import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hta_widgets import doctor
from hta_widgets.trace.cache import files
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import cache
from tests.kineto_text import call, kernel, write

EVENTS = [event for n in range(400) for event in (call(9 * n, 1, n), kernel(9 * n, 3))]


@pytest.fixture(autouse=True)
def every_trace_is_worth_keeping(monkeypatch):
    monkeypatch.setattr(cache, "WORTH_KEEPING", 0)
    monkeypatch.setattr(files, "_logged", set())


@pytest.fixture
def traces(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(2):
        write(folder / f"rank-{rank}.json", EVENTS)
    return folder


def forbid(monkeypatch, forbidden, *names):
    """Let the system refuse some calls, also to the superuser."""
    for name in names:
        allowed = getattr(Path, name)

        def refuse(self, *args, allowed=allowed, **options):
            if forbidden in (self, *self.parents):
                raise PermissionError(13, "Permission denied", str(self))
            return allowed(self, *args, **options)

        monkeypatch.setattr(Path, name, refuse)


def opens(traces, **options):
    job = open_trace(traces, progress=False, **options)
    return [len(job.rank(rank).trace.events) for rank in job.ranks] == [len(EVENTS)] * 2


@pytest.mark.parametrize("in_workers", [False, True])
def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, caplog, traces, in_workers):
    (tmp_path / "file").touch()
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "file" / "cache"))
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(1) as executor:
        options = {"executor": executor} if in_workers else {}
        assert all(opens(traces, **options) for _ in range(2))
    assert len(caplog.messages) == 1
    assert "no cache in " in caplog.text


@pytest.mark.parametrize("names", [("stat",), ("mkdir", "touch"), ("replace",)])
def test_a_folder_that_is_forbidden(tmp_path, monkeypatch, caplog, traces, names):
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv(files.VARIABLE, str(folder))
    forbid(monkeypatch, folder, *names)
    with caplog.at_level(logging.WARNING):
        assert all(opens(traces) for _ in range(2))
    assert len(caplog.messages) == 1


def test_a_user_without_a_home(monkeypatch, caplog, traces, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in (files.VARIABLE, "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(_uid):
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    with caplog.at_level(logging.WARNING):
        assert files.cache_folder() is None
    (said,) = caplog.messages
    assert said.startswith("no cache: the user has no home folder; set HTA_WIDGETS_CACHE")
    assert opens(traces)
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


def test_the_doctor_of_a_user_who_may_not_search_the_home(tmp_path, monkeypatch, capsys):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv(files.VARIABLE, str(home / "cache"))
    monkeypatch.setenv("JUPYTER_PATH", str(home))
    exists = os.path.exists
    monkeypatch.setattr("os.path.exists", lambda path: home != path and exists(path))
    forbid(monkeypatch, home, "stat", "is_dir", "is_file", "exists", "read_text")
    doctor()
    assert "writable" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        ("inf", sys.maxsize),
        ("1e400", sys.maxsize),
        ("nan", 20 * 10**9),
        ("-3", 0),
        ("much", 20 * 10**9),
    ],
)
def test_any_size_limit(tmp_path, monkeypatch, traces, value, limit):
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(files.SIZE_VARIABLE, value)
    assert files.size_limit() == limit
    assert opens(traces)


@pytest.mark.parametrize("damage", ["flipped name", "zeros in the middle", "half"])
def test_damaged_files_are_replaced(tmp_path, monkeypatch, traces, damage):
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "cache"))
    trace = traces / "rank-0.json"
    open_trace(trace, progress=False)
    (file,) = (tmp_path / "cache").iterdir()
    whole = file.read_bytes()
    if damage == "flipped name":
        damaged = whole.replace(b"cudaLaunchKernel", b"cudaLaunchKernem", 1)
    elif damage == "half":
        damaged = whole[: len(whole) // 2]
    else:
        middle = len(whole) // 2
        damaged = whole[:middle] + bytes(1024) + whole[middle + 1024 :]
    assert damaged != whole
    file.write_bytes(damaged)
    assert len(open_trace(trace, progress=False).rank(0).trace.events) == len(EVENTS)
    assert file.read_bytes() == whole
