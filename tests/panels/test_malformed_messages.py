"""What a browser must not send is refused in words, and changes nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hta_widgets.panels import Dashboard, Panel, Selection
from hta_widgets.panels.base.assets import shared_assets
from hta_widgets.panels.base.table import ROWS
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.panels.fakes import FakePanel, arrive, ask, fake_job, send, take_wrapper_off
from tests.panels.test_actions import WritingPanel, press

HUGE = "9" * 10_000

MALFORMED: list[Any] = [
    [],
    None,
    "text",
    7,
    {"bars": "many"},
    {"bars": None},
    {"bars": {"a": 1}},
    {"bars": 10**400, "ratio": "x"},
    {"ranks": 3},
    {"ranks": ["0"]},
    {"ranks": [[0]]},
    {"named": "yes"},
    {"layout": "IPY_MODEL_unknown"},
    {"layout": 5},
    {"_req": "next"},
    {"_req": None},
    {"_req": 1.5, "bars": 4},
    {"_visible": "perhaps"},
    {"_action": 5},
    {"_action": {}, "bars": 0},
    {"_action": {"name": "write"}},
    {"_action": {"number": 1}},
    {"_action": {"name": ["write"], "number": 1}},
    {"_action": {"name": "write", "number": {}}},
    {"_action": {"name": "write", "number": 1, "more": 1}},
    {"_action": {"name": "write", "number": 1, "folder": 1}},
    {"_view": {"finding": "forged"}},
    {"_view": "{}"},
    {"_spec": {}},
    {"_answer": {"number": 1, "text": "forged"}},
    {"_activity": "idle"},
    {"_esm": "alert(1)"},
    {"_assets": "anywidget:other"},
    {"_selection": "anywidget:other"},
    {"ratio": HUGE},
    {"ratio": 10**400},
    {"bars": 3, "ratio": -(10**400)},
]


@pytest.fixture
def panel() -> WritingPanel:
    return WritingPanel(fake_job())


@pytest.fixture(autouse=True)
def sent(monkeypatch) -> list[Any]:
    return take_wrapper_off(monkeypatch)


@pytest.mark.parametrize("message", MALFORMED, ids=lambda message: repr(message)[:60])
def test_it_is_said_in_the_panel_and_changes_nothing(panel, message, capsys):
    before = panel.get_state()
    arrive(panel, message)
    said = panel._view["error"]
    assert said
    assert len(said) < 400
    after = panel.get_state()
    after["_view"], after["_req"] = before["_view"], before["_req"]
    assert after == before
    assert panel.calls == 0
    assert "Traceback" not in "".join(capsys.readouterr())
    assert send(panel, bars=7)["error"] is None


def test_a_request_that_is_refused_is_answered(panel):
    view = send(panel, bars=9, _view={"finding": "forged"})
    assert (view["rev"], view["error"]) == (1, "only Python can set _view")
    assert panel.bars == 3


def test_bytes_are_refused(panel):
    arrive(panel, {"bars": 4}, buffer_paths=[["bars"]])
    assert panel.bars == 3


def test_a_button_still_works(panel):
    assert press(panel, "write")["text"].startswith("Wrote")
    assert press(panel, "write", number=2)["number"] == 2


@pytest.mark.parametrize(
    "message", [{"ranks": 3}, {"ranks": ["0"]}, {"kernel": 5}, {"_esm": "alert(1)"}, [], None]
)
def test_a_selection_keeps_its_values(message, caplog):
    panel = FakePanel(fake_job(), selection=Selection(ranks=[1], kernel="gemm"))
    with caplog.at_level(logging.WARNING):
        arrive(panel.selection, message)
    assert (panel.selection.ranks, panel.selection.kernel, panel.ranks) == ([1], "gemm", [1])
    assert "Selection refuses a message" in caplog.text


@pytest.mark.parametrize(
    "data",
    [
        *(None, 5, "text", [], {}, {"method": "close"}, {"method": ["update"]}),
        *({"method": "update", "state": state} for state in (None, 5, "ranks", [["ranks", []]])),
        *({"method": "update", "state": {}, "buffer_paths": paths} for paths in (None, 0, [["a"]])),
        {"method": "update", "state": {"self": 1, "ranks": [0]}},
        *({"method": "custom", "content": content} for content in (None, 5, [], {"kind": []})),
    ],
    ids=repr,
)
def test_what_is_no_message_raises_nothing(loaded: Job, data):
    board = Dashboard(loaded)
    for widget in (board, board.selection, *board.panels.values()):
        widget._handle_msg({"content": {"data": data}, "buffers": []})
    assert board.selection.values() == Selection.nothing() | {"ranks": board.selection.ranks}
    board.selection.set()
    board.close()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "\ud800", None, ["x"], 10**400])
def test_an_id_that_is_no_text_or_no_json_does_not_come_back(loaded: Job, sent, number):
    board = Dashboard(loaded)
    board.panels["overlap"].compute_all()
    question = {"kind": ROWS, "sort": "", "descending": False, "filter": "", "first": 0, "count": 2}
    for widget in (board, board.panels["overlap"]):
        ask(widget, {**question, "id": number})
    ask(board.panels["timeline"], {"kind": "kinds", "id": number})
    answers = [each["content"] for _, each in sent if each["method"] == "custom"]
    assert all(answer["id"] in (None, 10**400) for answer in answers)
    board.close()


def test_what_is_not_a_message_does_not_mark_the_next_one(panel):
    for message in ({"method": "nothing"}, {"method": "update", "state": {"bars": float("nan")}}):
        panel._handle_msg({"content": {"data": message}, "buffers": []})
        assert panel._view["error"]
        assert send(panel, bars=5)["error"] is None


def test_a_very_high_number_of_a_request_is_the_last_of_its_kind(panel):
    arrive(panel, {"_req": 10**9})
    assert panel._view["rev"] == 10**9
    arrive(panel, {"_req": 4, "bars": 9})
    assert (panel._view["rev"], panel._view["finding"]) == (4, "9 bars on 4 ranks.")
    arrive(panel, {"_req": 3})
    assert panel._view["rev"] == 3


class TestRanksOfAnotherJob:
    def test_from_a_page_they_are_dropped(self, loaded: Job, sent, caplog):
        board = Dashboard(loaded)
        board.selection.set(ranks=[1])
        arrive(board.selection, {"ranks": [99], "kernel": "gemm"})
        assert (board.selection.ranks, board.selection.kernel) == ([1], "")
        assert "rank 99 is not in this job; its ranks are 0-3" in caplog.text
        assert (board.selection, [1]) in [
            (widget, message["state"].get("ranks")) for widget, message in sent
        ]
        board.selection.set()
        board.close()

    def test_a_dashboard_says_what_it_lacks(self, loaded: Job, sent, tmp_path):
        write_sample(tmp_path, ranks=6, steps=2, progress=False)
        board = Dashboard(loaded)
        more = FakePanel(open_trace(tmp_path, progress=False), selection=board.selection)
        kernel = loaded.rank(0).trace.events.name.values[loaded.gpu_work(0).name[0]]
        arrive(board.selection, {"ranks": [5], "kernel": kernel})
        said = "rank 5 is not in this job; its ranks are 0-3"
        for act in ("next", "previous"):
            ask(board, {"act": act})
            assert board._bands["error"] == said
        question = {"kind": ROWS, "id": "1", "sort": "", "descending": False, "filter": ""}
        ask(board, {**question, "first": 0, "count": 2})
        assert sent[-1][1]["content"] == {"kind": ROWS, "id": "1", "problem": said}
        board.compute_all()
        assert board._bands["error"] == said
        arrive(board.selection, {"ranks": [3]})
        board.compute_all()
        assert board._bands["error"] is None
        ask(board, {"act": "next"})
        assert board.selection.window_ns
        more.close()
        board.selection.set()
        board.close()


def test_dashboards_and_assets_take_nothing(loaded: Job, caplog):
    board, assets = Dashboard(loaded), shared_assets()
    with caplog.at_level(logging.WARNING):
        arrive(board, {"_panels": []})
        arrive(assets, {"_esm": ""})
        arrive(assets, {"files": {}, "sums": {}})
    assert len(board._panels) == 1 + len(board.panels)
    assert assets.files
    assert caplog.text.count("refuses a message") == 3


names = st.sampled_from([*Panel.class_trait_names(sync=True), "bars", "ratio", "named", "x"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.dictionaries(names, json_values, max_size=4))
@example({"_action": {}})
@example({"_action": None, "_req": -1})
def test_no_message_is_a_traceback(message):
    panel = test_no_message_is_a_traceback.panel
    panel.set_state(message)
    assert panel._spec["title"] == "Fake"
    assert panel._view["rev"] >= 0


test_no_message_is_a_traceback.panel = WritingPanel(fake_job())
