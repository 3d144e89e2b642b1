"""VS Code: the renderer libraries of its Jupyter extension, on a page with an AMD loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route

from tests.browser.lab_pages import Lab
from tests.hosts.conftest import HERE, IPYWIDGETS_7, IPYWIDGETS_8
from tests.hosts.shown import Shown, cells


@pytest.fixture
def open_page(
    lab_session: Lab, node_modules: Path, vscode_script: Path, anywidget_amd: Path
) -> Iterator[Callable[[int], Page]]:
    """A page with the renderer for a major version of ipywidgets."""
    page = lab_session.browser.new_page(viewport={"width": 1300, "height": 1500})

    def opened(version: int) -> Page:
        files = {
            "vscode.js": vscode_script,
            "ipywidgets.js": node_modules
            / f"@vscode/jupyter-ipywidgets{version}/dist/ipywidgets.js",
            "require.js": node_modules / "requirejs/require.js",
            "anywidget.js": anywidget_amd,
        }

        def answer(route: Route) -> None:
            route.fulfill(path=files[urlsplit(route.request.url).path.rpartition("/")[2]])

        page.route(f"{lab_session.url}/vscode/**", answer)
        # Written into a page of the server: one that is made up here may not talk to it.
        page.goto(f"{lab_session.url}/login")
        page.set_content((HERE / "vscode.html").read_text())
        page.wait_for_function("() => globalThis.run !== undefined")
        return page

    yield opened
    page.close()


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("version", "kernel"), [(8, IPYWIDGETS_8), (7, IPYWIDGETS_7)])
def test_vscode(
    version: int,
    kernel: str,
    open_page: Callable[[int], Page],
    lab_session: Lab,
    job4: str,
):
    page = open_page(version)
    assert page.evaluate("typeof define.amd") == "object"
    run = [lab_session.url, lab_session.token, kernel, cells(job4)]
    page.evaluate("(all) => void run(...all)", run)
    shown = Shown(page)
    shown.draws()
    shown.moves()
    shown.answers_keys()
    shown.links()
    shown.is_dark()
    shown.screenshot(f"vscode-ipywidgets{version}")
