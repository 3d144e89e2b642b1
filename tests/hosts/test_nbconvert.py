"""nbconvert: pages without a kernel, with the network and without."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.hosts.shown import Shown, keep_picture, shows_summary

STATIC = "--ExecutePreprocessor.store_widget_state=False"


@pytest.fixture
def notebook(executed: nbformat.NotebookNode, tmp_path: Path) -> Path:
    """A file of the executed notebook."""
    path = tmp_path / "saved.ipynb"
    nbformat.write(executed, path)
    return path


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page(viewport={"width": 1300, "height": 1500})
    yield page
    page.close()


def convert(notebook: Path, *options: str) -> None:
    """Run nbconvert."""
    command = [sys.executable, "-m", "nbconvert", *options, str(notebook)]
    subprocess.run(command, check=True, capture_output=True)


def test_a_page_with_its_libraries_draws_the_charts(
    notebook: Path, page: Page, node_modules: Path, anywidget_amd: Path
):
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

    convert(notebook, "--to=html")
    page.route(re.compile("^https://"), answer)
    page.goto(notebook.with_suffix(".html").as_uri())
    shown = Shown(page)
    shown.draws()
    shown.screenshot("nbconvert")


def test_a_static_page_needs_no_network(notebook: Path, page: Page):
    convert(notebook, "--execute", "--to=html", STATIC, "--theme=dark")
    page.route(re.compile("^http"), lambda route: route.abort())
    page.goto(notebook.with_suffix(".html").as_uri())
    shows_summary(page)
    keep_picture(page, "nbconvert-static-dark")


def test_a_notebook_without_states_needs_none_either(notebook: Path, page: Page):
    book = nbformat.read(notebook, as_version=4)
    del book.metadata["widgets"]
    bare = notebook.with_name("bare.ipynb")
    nbformat.write(book, bare)
    convert(bare, "--to=html")
    page.route(re.compile("^http"), lambda route: route.abort())
    page.goto(bare.with_suffix(".html").as_uri())
    shows_summary(page)
    expect(page.locator("script[type*=widget-view]")).to_have_count(0)
