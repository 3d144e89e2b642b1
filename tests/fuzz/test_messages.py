"""No message of a page raises, and after any of them everything can be used."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from hta_widgets.panels import Dashboard, KernelBreakdownPanel, Panel
from hta_widgets.panels.base.table import ROWS
from hta_widgets.panels.base.widget import Widget
from hta_widgets.panels.timeline import TimelinePanel
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.fuzz.messages import message
from tests.panels.fakes import arrive, ask, take_wrapper_off

pytestmark = pytest.mark.long

MESSAGES = 1_000
QUESTION = {"kind": ROWS, "id": "last", "sort": "", "descending": False, "filter": ""}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory):
    """A dashboard of two ranks beside another job, and a panel of that job with its selection."""
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for ranks, folder in enumerate(folders, start=2):
        write_sample(folder, ranks=ranks, steps=2, progress=False)
    first, second = (open_trace(folder, progress=False) for folder in folders)
    made = Dashboard(first, compare=second)
    made.linked = KernelBreakdownPanel(second, selection=made.selection)
    made.at_first = {
        panel: {name: getattr(panel, name) for name in panel.parameters()}
        for panel in widgets_of(made)
        if isinstance(panel, Panel)
    }
    yield made
    made.linked.close()
    made.close()


@pytest.fixture
def sent(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # folders in messages are relative to it
    return take_wrapper_off(monkeypatch)


def widgets_of(board: Dashboard) -> list[Widget]:
    return [board, board.selection, board.header, *board.panels.values(), board.linked]


@pytest.mark.parametrize("seed", range(8))
def test_any_messages(board, sent, tmp_path, seed, caplog):
    caplog.set_level(logging.ERROR)
    random, widgets = Random(seed), widgets_of(board)  # noqa: S311
    board.output_dir = board.linked.output_dir = tmp_path
    often = [board, board.selection, board.panels["timeline"]]
    texts = board.job.rank(0).trace.events.name.values
    for _ in range(MESSAGES):
        widget = random.choice(widgets if random.random() < 0.7 else often)
        widget._handle_msg(message(random, widget, texts))
    assert_usable(board, sent)


def assert_usable(board: Dashboard, sent: list[Any]) -> None:
    board.selection.set()
    arrive(board, {"_visible": True})
    assert board._bands["ready"]
    assert board._bands["error"] is None
    assert len(board.events)
    for panel in widgets_of(board):
        if isinstance(panel, Panel):
            arrive(panel, {**board.at_first[panel], "_visible": True, "_req": panel._req + 1})
            assert (panel._view["rev"], panel._view["error"]) == (panel._req, None)
    for widget in (board, board.panels["overlap"]):
        sent.clear()
        ask(widget, {**QUESTION, "first": 0, "count": 2})
        (answer,) = (each["content"] for _, each in sent)
        assert (answer["id"], len(answer["rows"])) == ("last", 2)
    timeline = board.panels["timeline"]
    assert isinstance(timeline, TimelinePanel)
    sent.clear()
    ask(timeline, {"kind": "lanes", "rank": 1, "id": 7})
    assert [(each["content"]["kind"], each["content"]["id"]) for _, each in sent] == [("lanes", 7)]
