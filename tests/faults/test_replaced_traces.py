"""A trace is made again under the same name while a job of the old one is open."""

from __future__ import annotations

import pytest

from hta_widgets.analyses import kernel_sequences
from hta_widgets.errors import TraceChangedError, TraceNotFoundError
from hta_widgets.export.overlaid_trace import write_overlaid_trace
from hta_widgets.export.trace_with_counters import write_traces_with_counters
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import cache
from tests.kineto_text import call, host, kernel, write

EVENTS = [
    event
    for number in range(10)
    for event in (
        host(100 * number, 50, "aten::mm"),
        call(100 * number + 1, 2, number),
        kernel(100 * number + 10, 20, correlation=number),
    )
]
SAYS_SO = r"rank-0\.json.* has changed since the job was opened; open the job again"


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "rank-0.json.gz", EVENTS)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_exports_refuse_another_trace(tmp_path, trace):
    job = open_trace(trace, progress=False)
    found = kernel_sequences(job, operator_name="aten", min_pattern_len=1)
    write(trace, EVENTS[3:])
    with pytest.raises(TraceChangedError, match=SAYS_SO):
        write_traces_with_counters(job)
    with pytest.raises(TraceChangedError, match=SAYS_SO):
        write_overlaid_trace(job, found, tmp_path)
    assert names_in(tmp_path) == [trace.name]


def test_exports_refuse_a_trace_that_is_gone(tmp_path, trace):
    job = open_trace(trace, progress=False)
    trace.unlink()
    with pytest.raises(TraceNotFoundError, match="no longer exists; open the job again"):
        write_traces_with_counters(job)
    assert names_in(tmp_path) == []


def big_job(monkeypatch, source):
    monkeypatch.setattr(opening, "_is_big", lambda _: True)
    return open_trace(source, progress=False)


@pytest.mark.parametrize("caching", [False, True])
def test_a_rank_that_is_loaded_later_is_refused(tmp_path, monkeypatch, trace, caching):
    if caching:
        monkeypatch.setenv(cache_files.VARIABLE, str(tmp_path / "cache"))
        monkeypatch.setattr(cache, "WORTH_KEEPING", 0)
    job = big_job(monkeypatch, trace)
    write(trace, EVENTS[3:])
    open_trace(trace, progress=False).load(progress=False)  # the cache now holds the new trace
    with pytest.raises(TraceChangedError, match=SAYS_SO):
        job.rank(0)


def test_a_trace_that_changes_while_it_is_read_is_refused(monkeypatch, trace):
    job = big_job(monkeypatch, trace)
    source = job.sources[0]
    load = type(source)._load

    def load_and_write(source, *arguments):
        loaded = load(source, *arguments)
        write(trace, EVENTS[3:])
        return loaded

    monkeypatch.setattr(type(source), "_load", load_and_write)
    with pytest.raises(TraceChangedError, match=SAYS_SO):
        job.rank(0)


def test_a_touched_file_beside_it_is_another_one(tmp_path, monkeypatch, trace):
    job = big_job(monkeypatch, trace)
    (tmp_path / "notes.txt").write_text("hello")
    assert len(job.rank(0).trace.events) == len(EVENTS)
    assert write_traces_with_counters(job)


def test_what_is_new_in_a_folder_is_not_of_the_trace(tmp_path, monkeypatch):
    folder = tmp_path / "rank0"
    folder.mkdir()
    (folder / "conc_kernel.csv").write_text(
        "start,end,dur,name,correlation,stream\n1,2,1,k,5,7\n", encoding="utf-8"
    )
    first, second = big_job(monkeypatch, folder), big_job(monkeypatch, folder)
    (folder / "notes.txt").write_text("hello")
    assert len(first.rank(0).trace.events) == 1
    (folder / "conc_kernel.csv").unlink()
    with pytest.raises(TraceNotFoundError, match="no longer exists"):
        second.rank(0)
