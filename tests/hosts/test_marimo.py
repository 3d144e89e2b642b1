"""marimo in its dark theme: every panel in a shadow root."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.lab_pages import free_port, wait_until_up
from tests.hosts.shown import Shown, cells

APP = """
# /// script
# [tool.marimo.display]
# theme = "dark"
# ///
import marimo

app = marimo.App(width="full")

@app.cell
def _():
{first}
    return (board,)

@app.cell
def _(board):
{second}
    return
"""


@pytest.fixture
def page(chromium: Browser, job4: str, tmp_path: Path) -> Iterator[Page]:
    first, second = (indent(cell, "    ") for cell in cells(job4))
    app, log, port = tmp_path / "app.py", tmp_path / "log", free_port()
    app.write_text(APP.format(first=first, second=second))
    command = [sys.executable, "-m", "marimo", "run", str(app), "--headless", "--no-token"]
    command += ["--host=127.0.0.1", f"--port={port}"]
    alone = {"HOME": str(tmp_path), "MARIMO_SKIP_UPDATE_CHECK": "1"}
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            env={**os.environ, **alone},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_up(url, server, log)
        page = chromium.new_page(viewport={"width": 1300, "height": 1500})
        page.goto(url)
        yield page
        page.close()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=20)


def test_marimo(page: Page):
    shown = Shown(page)
    shown.draws()
    shown.moves()
    shown.links()
    shown.is_dark()
    shown.screenshot("marimo")
