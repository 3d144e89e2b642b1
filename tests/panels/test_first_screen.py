"""What a dashboard says first is kept with cached traces, and is what a diagnosis would say."""

from __future__ import annotations

import pytest
from ipywidgets import Widget

from hta_widgets.panels import Dashboard
from hta_widgets.panels.bands import bands as bands_module
from hta_widgets.sample import write_sample
from hta_widgets.trace import job as job_module
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import cache


@pytest.fixture
def traces(tmp_path, monkeypatch):
    monkeypatch.setenv(cache_files.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTH_KEEPING", 0)
    write_sample(tmp_path / "traces", ranks=2, steps=3, progress=False)
    return tmp_path / "traces"


@pytest.fixture
def diagnosed(monkeypatch):
    """Count the diagnoses."""
    count, diagnosis = [], bands_module.diagnosis
    monkeypatch.setattr(bands_module, "diagnosis", lambda job: count.append(job) or diagnosis(job))
    return count


def shown(traces, *, select=None, **options):
    """All that a page is told of a newly opened job, and the static page."""
    board = Dashboard(open_trace(traces, progress=False, **options))
    page = board._repr_mimebundle_()[0]["text/html"]
    if select:
        board.set_state({"_visible": True})
        board.selection.set(**select)
        board.selection.set()
    names = ("_bands", "_together", "_spec", "verdict", "panel", "selected")
    said = {name: getattr(board, name) for name in names}
    board.close()
    return said, page


def kept(traces):
    """Files of the cache that hold texts."""
    files = sorted((traces.parent / "cache").iterdir())
    return [path for path in files if b"ready" in path.read_bytes()]


def test_the_second_time_it_says_the_same_without_a_diagnosis(traces, diagnosed):
    first = shown(traces)
    assert first[0]["_bands"]["findings"]
    assert len(kept(traces)) == 1
    assert shown(traces) == first
    assert len(diagnosed) == 1


def test_what_is_selected_is_diagnosed_as_ever(traces, diagnosed, monkeypatch):
    first = shown(traces)
    assert shown(traces, select={"ranks": [1]}) == first
    board = Dashboard(open_trace(traces, progress=False))
    board.selection.set(ranks=[1])
    board._repr_mimebundle_()
    monkeypatch.setenv(cache_files.VARIABLE, cache_files.OFF)
    other = Dashboard(open_trace(traces, progress=False))
    other.selection.set(ranks=[1])
    other._repr_mimebundle_()
    assert board._bands == other._bands
    assert len(diagnosed) == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [({"include_last_profiler_step": True}, None), ({"ranks": [1]}, None), ({}, "other code")],
    ids=["settings", "ranks", "code"],
)
def test_what_was_kept_of_anything_else_is_not_shown(traces, diagnosed, monkeypatch, options, code):
    shown(traces)
    if code:
        monkeypatch.setattr(job_module, "code_version", lambda _: code)
    shown(traces, **options)
    assert len(diagnosed) == 2
    assert len(kept(traces)) == 1 + bool(options)  # what other code made is written over


@pytest.mark.parametrize(
    "damage",
    [lambda file: file[:-100], lambda file: file.replace(b"ready", b"reedy"), lambda _: b""],
    ids=["cut", "flipped", "empty"],
)
def test_a_damaged_file_is_written_again(traces, diagnosed, damage):
    first = shown(traces)
    [file] = kept(traces)
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert shown(traces) == first
    assert len(diagnosed) == 2
    assert file.read_bytes() == content


def test_a_file_that_holds_something_else_is_not_believed(traces, diagnosed, monkeypatch):
    first = shown(traces)
    job = open_trace(traces, progress=False)
    place = job.rank(0).kept
    monkeypatch.setattr(type(place), "read_text", lambda *_: b'{"bands": {"ready": "yes"}}')
    assert shown(traces) == first
    assert len(diagnosed) == 2


def test_no_model_is_opened_that_is_closed_again(traces, monkeypatch):
    """On a page of CPU work, that was "Failed to initialize model" after two seconds."""
    opened, open_model = [], Widget.open
    monkeypatch.setattr(Widget, "open", lambda self: opened.append(self) or open_model(self))
    board = Dashboard(open_trace(traces, progress=False))
    board._repr_mimebundle_()
    assert board in opened
    assert all(each.comm is not None for each in opened)
    board.close()
