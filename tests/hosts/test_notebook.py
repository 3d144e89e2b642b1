"""Notebook 7, with the JupyterLab dark theme."""

from __future__ import annotations

from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.lab_pages import CELLS_MS, KERNEL_IS_IDLE, RUN_ALL, jupyter, notebook
from tests.hosts.shown import Shown, cells

DARK = "() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"


@pytest.fixture
def page(chromium: Browser, job4: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with jupyter("notebook", tmp_path_factory.mktemp("notebook")) as (url, token, root):
        nbformat.write(notebook(cells(job4)), root / "first.ipynb")
        page = chromium.new_page(viewport={"width": 1300, "height": 1500})
        page.goto(f"{url}/notebooks/first.ipynb?token={token}")
        page.wait_for_function(KERNEL_IS_IDLE, timeout=CELLS_MS)
        page.evaluate(RUN_ALL)
        yield page
        page.close()


def test_notebook(page: Page):
    shown = Shown(page)
    shown.draws()
    shown.moves()
    shown.answers_keys()
    shown.links()
    page.evaluate(DARK)
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    page.wait_for_timeout(500)
    shown.is_dark()
    shown.screenshot("notebook")
