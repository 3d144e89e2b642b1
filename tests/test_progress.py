"""Progress bars: what a notebook keeps of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tqdm.auto
import tqdm.notebook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from ipywidgets import Layout, Widget

from hta_widgets import progress
from hta_widgets.progress.notebook_bar import NotebookBar
from tests.soak import open_widgets

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """tqdm as in a notebook, and bars that appear at once."""
    monkeypatch.setattr(progress.bars, "tqdm", type("tqdm", (tqdm.notebook.tqdm,), {}))
    monkeypatch.setattr(progress, "DELAY_S", 0)
    InteractiveShell.instance()
    anchor = NotebookBar._anchor = Layout()
    yield
    anchor.close()
    InteractiveShell.clear_instance()


def shown(outputs: list[Any]) -> list[tuple[bool, str | None, bool]]:
    """Of each message: whether it updates an earlier one, which, and whether it shows a widget."""
    return [
        (
            each.get("update", False),
            (each.get("transient") or {}).get("display_id"),
            WIDGET in each["data"],
        )
        for each in outputs
    ]


def test_a_bar_leaves_neither_widgets_nor_an_output_that_shows_one(notebook: None):  # noqa: ARG001
    before = dict(open_widgets())
    with capture_output() as captured, progress.byte_bar("reading", 100, show=True) as on_read:
        on_read(60)
        on_read.__self__._bar.refresh()
        during = len(open_widgets())
        on_read(40)
    assert during > len(before)
    assert open_widgets() == before
    (_, first, has_widget), *_, (updates, last, still) = shown(captured._outputs)
    assert (has_widget, updates, still) == (True, True, False)
    assert first == last


def test_a_widget_stays_open_between_bars(notebook: None):  # noqa: ARG001
    NotebookBar._anchor.close()  # as Widget.close_all does
    before = len(open_widgets())
    for _ in range(3):
        with progress.byte_bar("reading", 100, show=True) as on_read:
            on_read(60)
        assert len(open_widgets()) == before + 1


def test_work_that_ends_at_once_makes_no_widgets(notebook: None, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(progress, "DELAY_S", 60)
    made: list[object] = []
    Widget.on_widget_constructed(made.append)
    try:
        with progress.byte_bar("reading", 100, show=True) as on_read:
            on_read(60)
    finally:
        Widget.on_widget_constructed(None)
    assert not made


def test_a_late_bar_counts_what_was_done_before(notebook: None, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(progress, "DELAY_S", 60)
    with progress.counted_bar("reading", 100, show=True) as advance:
        advance(20)
        advance.__self__._due = 0
        advance(30)
        advance(10)
        assert advance.__self__._bar.n == 60


def test_nor_does_one_that_fails(notebook: None):  # noqa: ARG001
    def fail() -> None:
        with progress.byte_bar("reading", 9, show=True) as on_read:
            on_read(5)
            msg = "gone"
            raise OSError(msg)

    before = dict(open_widgets())
    with pytest.raises(OSError, match="gone"):
        fail()
    assert open_widgets() == before


def test_a_terminal_has_a_bar_of_text(monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY_S", 0)
    with progress.byte_bar("reading", 100, show=True) as on_read:
        on_read(60)
    assert "reading" in capsys.readouterr().err
