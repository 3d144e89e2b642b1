"""VS Code: the renderer library of its Jupyter extension, on a page with an AMD loader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route

from tests.browser.lab_pages import Lab
from tests.hosts.conftest import HERE
from tests.hosts.shown import Shown, cells


@pytest.fixture
def page(
    lab_session: Lab, node_modules: Path, vscode_script: Path, anywidget_amd: Path
) -> Iterator[Page]:
    files = {
        "vscode.js": vscode_script,
        "ipywidgets.js": node_modules / "@vscode/jupyter-ipywidgets8/dist/ipywidgets.js",
        "require.js": node_modules / "requirejs/require.js",
        "anywidget.js": anywidget_amd,
    }

    def answer(route: Route) -> None:
        route.fulfill(path=files[urlsplit(route.request.url).path.rpartition("/")[2]])

    page = lab_session.browser.new_page(viewport={"width": 1300, "height": 1500})
    page.route(f"{lab_session.url}/vscode/**", answer)
    # Written into a page of the server: one that is made up here may not talk to it.
    page.goto(f"{lab_session.url}/login")
    page.set_content((HERE / "vscode.html").read_text())
    page.wait_for_function("() => globalThis.run !== undefined")
    yield page
    page.close()


def test_vscode(page: Page, lab_session: Lab, job4: str):
    assert page.evaluate("typeof define.amd") == "object"
    page.evaluate("(all) => void run(...all)", [lab_session.url, lab_session.token, cells(job4)])
    shown = Shown(page)
    shown.draws()
    shown.moves()
    shown.links()
    shown.is_dark()
    shown.screenshot("vscode")
