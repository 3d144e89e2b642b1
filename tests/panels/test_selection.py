from __future__ import annotations

import json
from types import SimpleNamespace

import ipywidgets
import numpy as np
import pytest
from traitlets import TraitError

from hta_widgets.panels import Selection
from hta_widgets.panels.base.selection import MOST_KEPT
from tests.panels.fakes import FakePanel, fake_job


class FollowingPanel(FakePanel):
    follows = ("steps", "window_ns")


def in_json(message):
    return json.loads(json.dumps(message["state"]))


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


def test_steps_are_ascending_and_distinct():
    assert Selection(steps=[13, np.int64(11), 13]).steps == (11, 13)
    assert Selection().steps == ()


@pytest.mark.parametrize("steps", [None, 11, ["11"], [11.0], [True], [2**62]])
def test_steps_are_whole_numbers(steps):
    with pytest.raises(TraitError, match="steps"):
        Selection(steps=steps)


def test_a_window_has_two_edges_in_order():
    assert Selection(window_ns=[np.int64(3), 8]).window_ns == (3, 8)
    assert Selection(window_ns=None).window_ns is None


@pytest.mark.parametrize("window", [(), (3,), (3, 3), (8, 3), (3, 8, 9), (0.5, 8), 7, (0, 2**62)])
def test_a_window_has_a_length(window):
    with pytest.raises(TraitError, match="window_ns"):
        Selection(window_ns=window)


@pytest.mark.parametrize("finding", [-1, "0", 0.5])
def test_a_finding_is_a_place(finding):
    assert Selection(finding=0).finding == 0
    with pytest.raises(TraitError, match="finding"):
        Selection(finding=finding)


def test_the_browser_gets_lists_of_steps(monkeypatch):
    selection, sent = Selection(), []
    monkeypatch.setattr(selection, "_send", lambda message, **_: sent.append(in_json(message)))
    selection.set_state({"steps": [11, 13], "window_ns": [3, 8], "finding": 2})
    assert sent == [{"steps": [11, 13], "window_ns": [3, 8], "finding": 2}]
    selection.set_state({"steps": [], "window_ns": None, "finding": None})
    assert sent[1:] == [{"steps": [], "window_ns": None, "finding": None}]
    assert (selection.steps, selection.window_ns, selection.finding) == ((), None, None)


@pytest.mark.parametrize(
    "message",
    [{"steps": 3}, {"steps": [1.5]}, {"window_ns": [8, 3]}, {"window_ns": []}, {"finding": "x"}],
    ids=repr,
)
def test_nonsense_of_a_browser_changes_nothing(message):
    selection = Selection(steps=(11,), window_ns=(3, 8), finding=1)
    selection.set_state({**message, "kernel": "gemm"})
    assert repr(selection) == repr(Selection(steps=(11,), window_ns=(3, 8), finding=1))


def test_fields_set_together_are_one_change():
    selection = Selection()
    panel = FollowingPanel(fake_job(), selection=selection)
    before = panel.runs
    with selection.hold():
        selection.steps = (11,)
        selection.window_ns = (3, 8)
        selection.ranks = [1]
    assert (panel.runs, panel.ranks) == (before + 1, [1])


def test_repr():
    assert repr(Selection(ranks=[1], steps=(11,))) == (
        "Selection(ranks=[1], streams=[], kernel='', operators=(), shapes=(), modules=(), "
        "phase='', steps=(11,), window_ns=None, finding=None)"
    )


def test_names_are_sorted_and_distinct():
    selection = Selection(operators=["aten::mm", "aten::add", "aten::mm"], modules=["Net › fc"])
    assert selection.operators == ("aten::add", "aten::mm")
    assert selection.modules == ("Net › fc",)
    selection.close()


@pytest.mark.parametrize("field", ["operators", "shapes", "modules"])
def test_names_that_are_no_texts_are_refused(field):
    selection = Selection()
    with pytest.raises(TraitError, match=f"{field} must be texts, got"):
        setattr(selection, field, [1])
    selection.close()


def test_an_unknown_phase_is_refused():
    selection = Selection(phase="backward")
    with pytest.raises(TraitError, match="phase must be one of decode, mixed, prefill, forward"):
        selection.phase = "sideways"
    assert selection.phase == "backward"
    selection.close()


class TestUndo:
    def test_each_change_is_undone_as_it_was_made(self):
        selection = Selection()
        selection.ranks = [3]
        with selection.hold():
            selection.steps = (11, 13)
            selection.kernel = "gemm"
        selection.undo()
        assert (selection.ranks, selection.steps, selection.kernel) == ([3], (), "")
        selection.undo()
        assert selection.values() == Selection.nothing()
        selection.undo()
        assert selection.values() == Selection.nothing()

    def test_a_message_is_one_change(self):
        selection = Selection()
        selection.set_state({"ranks": [1], "finding": 0})
        selection.set_state({"ranks": [], "finding": None, "kernel": "gemm"})
        selection.undo()
        assert (selection.ranks, selection.finding, selection.kernel) == ([1], 0, "")

    def test_what_was_selected_at_first_is_where_it_ends(self):
        selection = Selection(ranks=[2])
        selection.undo()
        assert selection.ranks == [2]
        selection.ranks = []
        selection.undo()
        assert selection.ranks == [2]

    def test_a_change_after_it_goes_on_from_there(self):
        selection = Selection()
        selection.ranks = [1]
        selection.ranks = [2]
        selection.undo()
        selection.ranks = [3]
        selection.undo()
        assert selection.ranks == [1]

    def test_it_remembers_so_many(self):
        selection = Selection()
        for rank in range(200):
            selection.ranks = [rank]
        for _ in range(200):
            selection.undo()
        assert selection.ranks == [199 - MOST_KEPT]

    def test_panels_follow_it_with_one_computation(self):
        panel = FakePanel(fake_job())
        panel.selection.set(ranks=[1], kernel="gemm")
        runs = panel.runs
        panel.selection.undo()
        assert (panel.ranks, panel.runs) == ([], runs + 1)


class TestCode:
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"ranks": [0, 3], "steps": (11,), "window_ns": (5, 9)},
            {"kernel": "void f<'a', \"b\">(\\)", "finding": 0, "phase": "backward"},
            {"operators": ("aten::mm",), "shapes": ("[[2, 3], []]",)},
            {"modules": ("A › B",), "streams": [7]},
        ],
    )
    def test_it_restores_what_is_selected(self, fields):
        wanted, restored = Selection(**fields), Selection(ranks=[9], kernel="other")
        dash = SimpleNamespace(selection=restored)
        exec(wanted.to_code(), {"dash": dash})  # noqa: S102
        assert restored.values() == wanted.values()

    def test_an_unknown_field_is_refused(self):
        with pytest.raises(TypeError, match="no field rank; it has ranks, streams"):
            Selection().set(rank=3)
        with pytest.raises(AttributeError, match="no field rank; it has ranks, streams"):
            Selection().rank = 3

    def test_a_wrong_value_changes_nothing(self):
        selection = Selection(ranks=[1])
        with pytest.raises(TraitError):
            selection.set(kernel="gemm", phase="nonsense")
        assert (selection.ranks, selection.kernel) == ([1], "")
