"""Voilà in its dark theme: a notebook as a page, with a kernel and without code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.lab_pages import free_port, isolated, notebook, served
from tests.hosts.shown import Shown, cells


@pytest.fixture
def page(chromium: Browser, job4: str, tmp_path: Path) -> Iterator[Page]:
    book, port = tmp_path / "first.ipynb", free_port()
    nbformat.write(notebook(cells(job4)), book)
    command = ["voila", str(book), "--no-browser", "--theme=dark", f"--port={port}"]
    url = f"http://127.0.0.1:{port}"
    address = f"{url}/voila/static/none"
    with served([*command, "--Voila.ip=127.0.0.1"], address, tmp_path / "log", isolated(tmp_path)):
        page = chromium.new_page(viewport={"width": 1300, "height": 1500})
        page.goto(url)
        yield page
        page.close()


def test_voila(page: Page):
    shown = Shown(page)
    shown.draws()
    shown.moves()
    shown.answers_keys()
    shown.links()
    shown.is_dark()
    shown.screenshot("voila")
