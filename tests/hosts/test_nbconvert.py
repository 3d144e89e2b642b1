"""nbconvert: a page without a kernel, whose libraries come from a CDN."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page, Route

from tests.hosts.shown import Shown, cells


@pytest.fixture
def page(
    chromium: Browser, node_modules: Path, anywidget_amd: Path, job4: str, tmp_path: Path
) -> Iterator[Page]:
    notebook = tmp_path / "saved.ipynb"
    code = [nbformat.v4.new_code_cell(cell) for cell in cells(job4)]
    nbformat.write(nbformat.v4.new_notebook(cells=code), notebook)
    convert = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", str(notebook)]
    subprocess.run(convert, check=True, capture_output=True)
    files = {
        "require": node_modules / "requirejs/require.js",
        "html-manager": node_modules / "@jupyter-widgets/html-manager/dist/embed-amd.js",
        "anywidget": anywidget_amd,
    }

    def answer(route: Route) -> None:
        address = route.request.url
        found = next((file for name, file in files.items() if name in address), None)
        headers = {"Access-Control-Allow-Origin": "*", "Content-Type": "text/javascript"}
        route.fulfill(path=found, headers=headers) if found else route.abort()

    page = chromium.new_page(viewport={"width": 1300, "height": 1500})
    page.route(re.compile("^https://"), answer)
    page.goto(notebook.with_suffix(".html").as_uri())
    yield page
    page.close()


def test_nbconvert(page: Page):
    shown = Shown(page)
    shown.draws()
    shown.screenshot("nbconvert")
