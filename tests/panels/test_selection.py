from __future__ import annotations

import ipywidgets
import pytest
from traitlets import TraitError

from hta_widgets.panels import Selection
from tests.panels.fakes import fake_job


def test_one_for_each_job():
    job = fake_job()
    assert Selection.of(job) is Selection.of(job)
    assert Selection.of(job) is not Selection.of(fake_job())


def test_a_closed_one_is_replaced():
    job = fake_job()
    first = Selection.of(job)
    first.close()
    assert Selection.of(job) is not first


def test_ranks_and_streams_are_ascending_and_distinct():
    assert Selection(ranks=[3, 0, 3]).ranks == [0, 3]
    assert Selection(streams=[20, 7, 7]).streams == [7, 20]


def test_ranks_are_whole_numbers():
    with pytest.raises(TraitError):
        Selection(ranks=["0"])


def test_the_browser_gets_back_what_was_taken_over(monkeypatch):
    selection, sent = Selection(), []
    monkeypatch.setattr(selection, "_send", lambda message, **_: sent.append(message))
    selection.set_state({"ranks": [0, 3], "kernel": "gemm"})
    taken_over = {"ranks": [0, 3], "kernel": "gemm"}
    assert sent == [{"method": "update", "state": taken_over, "buffer_paths": []}]


def test_it_can_be_observed_and_linked():
    selection, text = Selection(), ipywidgets.Text()
    ipywidgets.link((selection, "kernel"), (text, "value"))
    selection.kernel = "gemm"
    assert text.value == "gemm"


def test_repr():
    assert repr(Selection(ranks=[1])) == "Selection(ranks=[1], streams=[], kernel='')"
