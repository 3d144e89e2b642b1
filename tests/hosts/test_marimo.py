"""marimo in its dark theme: every panel in a shadow root."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import indent

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.lab_pages import free_port, served
from tests.hosts.shown import DRAWN_MS, Shown, cells

APP = """
# /// script
# [tool.marimo.display]
# theme = "dark"
# ///
import marimo

app = marimo.App(width="full")
"""
CELL = """
@app.cell
def _({needs}):
{code}
    return ({gives})
"""

WRAPPED = """
from hta_widgets.panels import KernelBreakdownPanel
panel = mo.ui.anywidget(KernelBreakdownPanel({folder!r}))
panel
"""
DASHBOARD = """
from hta_widgets import Dashboard
board = mo.ui.anywidget(Dashboard({folder!r}))
board
"""
READ_BOARD = "mo.md(f\"{board.value['verdict'][:10]}, selected: {board.value['selected']}\")"
SET_ONCE = """
if panel.num_kernels == 10:
    panel.num_kernels = 4
mo.md(f"after Python: {panel.value['num_kernels']}")
"""
READ = "mo.md(f\"elsewhere: {panel.value['num_kernels']}\")"


@pytest.fixture
def show(chromium: Browser, tmp_path: Path) -> Iterator[Callable[[str], Page]]:
    """Open a page of an app that is given as text."""
    with ExitStack() as stack:

        def shown(app: str) -> Page:
            path, port = tmp_path / "app.py", free_port()
            path.write_text(app)
            command = ["marimo", "run", str(path), "--headless", "--no-token"]
            command += ["--host=127.0.0.1", f"--port={port}"]
            environment = {**os.environ, "HOME": str(tmp_path), "MARIMO_SKIP_UPDATE_CHECK": "1"}
            url = f"http://127.0.0.1:{port}"
            stack.enter_context(served(command, url, tmp_path / "log", environment))
            page = chromium.new_page(viewport={"width": 1300, "height": 1500})
            stack.callback(page.close)
            page.goto(url)
            return page

        yield shown


def cell(code: str, needs: str = "", gives: str = "") -> str:
    return CELL.format(code=indent(code, "    "), needs=needs, gives=gives)


def test_marimo(show: Callable[[str], Page], job4: str):
    first, second = cells(job4)
    shown = Shown(show(APP + cell(first, gives="board,") + cell(second, needs="board")))
    shown.draws()
    shown.moves()
    shown.answers_keys()
    shown.links()
    shown.opens_a_tab()
    shown.is_dark()
    shown.screenshot("marimo")


def test_values_reach_other_cells(show: Callable[[str], Page], job4: str):
    """Also what is selected by a click that opens a tab; the selection is a widget of its own."""
    panel = cell(WRAPPED.format(folder=job4), "mo", gives="panel,")
    board = cell(DASHBOARD.format(folder=job4), "mo", gives="board,")
    read = [cell(SET_ONCE, "mo, panel"), cell(READ, "mo, panel"), cell(READ_BOARD, "mo, board")]
    page = show("".join([APP, cell("import marimo as mo", gives="mo,"), panel, board, *read]))
    slider = page.locator(".hta-panel").first.get_by_role("slider", name="Top kernels")
    expect(page.get_by_text("after Python: 4")).to_be_visible(timeout=DRAWN_MS)
    expect(slider).to_have_value("4")
    slider.press("ArrowRight")
    expect(page.get_by_text("elsewhere: 5")).to_be_visible()
    expect(page.get_by_text("findings, selected: {}")).to_be_visible(timeout=DRAWN_MS)
    page.locator(".hta-budget button").nth(2).click()
    expect(page.get_by_text("findings, selected: {'ranks': [3]")).to_be_visible()
