"""nbclassic: the interface of Notebook 6, whose pages have an AMD loader and no dark theme."""

from __future__ import annotations

from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.lab_pages import CELLS_MS, jupyter, notebook
from tests.hosts.shown import Shown, cells

RESTORING_MS = 3_000
"""For a moment after it is there, the widget manager loses the first widget that is displayed."""

READY = """() => {
    const kernel = globalThis.Jupyter?.notebook?.kernel;
    return kernel?.is_connected?.() && kernel.widget_manager !== undefined;
}"""


@pytest.fixture
def page(chromium: Browser, job4: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with jupyter("nbclassic", tmp_path_factory.mktemp("nbclassic")) as (url, token, root):
        nbformat.write(notebook(cells(job4)), root / "first.ipynb")
        page = chromium.new_page(viewport={"width": 1300, "height": 1500})
        page.goto(f"{url}/nbclassic/notebooks/first.ipynb?token={token}")
        page.wait_for_function(READY, timeout=CELLS_MS)
        page.wait_for_timeout(RESTORING_MS)
        page.evaluate("() => Jupyter.notebook.execute_all_cells()")
        yield page
        page.close()


def test_nbclassic(page: Page):
    shown = Shown(page)
    shown.draws()
    shown.moves()
    shown.answers_keys()
    shown.links()
    shown.screenshot("nbclassic")
