"""What a browser must not send is refused in words, and changes nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hta_widgets.panels import Dashboard, Panel, Selection
from hta_widgets.panels.base.assets import shared_assets
from hta_widgets.trace.job import Job
from tests.panels.fakes import FakePanel, fake_job, send
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
]


@pytest.fixture
def panel() -> WritingPanel:
    return WritingPanel(fake_job())


def arrive(widget: Any, state: Any, **more: Any) -> None:
    """What ipykernel does with a message of the browser."""
    data = {"method": "update", "state": state, "buffer_paths": [], **more}
    widget._handle_msg({"content": {"data": data}, "buffers": [b"x"]})


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
    assert (view["rev"], view["error"]) == (1, "_view is set by Python only")
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


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(names, json_values, max_size=4))
@example({"_action": {}})
@example({"_action": None, "_req": -1})
def test_no_message_is_a_traceback(message):
    panel = test_no_message_is_a_traceback.panel
    panel.set_state(message)
    assert panel._spec["title"] == "Fake"
    assert panel._view["rev"] >= 0


test_no_message_is_a_traceback.panel = WritingPanel(fake_job())
