"""Colab in its dark theme: a widget manager as it has, in a frame of its own for each output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.lab_pages import Lab
from tests.conftest import REAL_TRACES
from tests.hosts.conftest import HERE, IPYWIDGETS_7, IPYWIDGETS_8
from tests.hosts.shown import DRAWN_MS, Shown, cells

PUBLISHED = REAL_TRACES.parent / "tools" / "hosts" / "vendor" / "colab_manager.js"
"""Built from googlecolab/colab-cdn-widget-manager, which no package registry has."""

IN_COLAB = """
import sys, types
output = sys.modules["google.colab.output"] = types.ModuleType("google.colab.output")
output.enable_custom_widget_manager = lambda: None
output._widgets = types.SimpleNamespace(_installed_url="https://frame.test/colab_manager.js")
"""
PAGE = """
<base href="/colab/"><script type="module" src="colab.js"></script>
<style>iframe { width: 100%; height: 2000px; border: 0 }</style>
"""


@pytest.fixture
def open_page(
    lab_session: Lab, colab_script: Path, anywidget_amd: Path
) -> Iterator[Callable[[Path], Page]]:
    """A page whose outputs have a widget manager."""
    page = lab_session.browser.new_page(viewport={"width": 1300, "height": 1500})

    def opened(manager: Path) -> Page:
        frame = HERE / "colab_frame.html"
        files = {"colab.js": colab_script, "colab_manager.js": manager, "": frame}

        def answer(route: Route) -> None:
            name = urlsplit(route.request.url).path.rpartition("/")[2]
            headers = {"Access-Control-Allow-Origin": "*"}
            route.fulfill(path=files.get(name, anywidget_amd), headers=headers)

        for address in (f"{lab_session.url}/colab/**", "https://frame.test/**", "https://cdn.*/**"):
            page.route(address, answer)
        page.goto(f"{lab_session.url}/login")
        page.set_content(PAGE)
        page.wait_for_function("() => globalThis.run !== undefined")
        return page

    yield opened
    page.close()


def works(page: Page, lab_session: Lab, kernel: str, folder: str) -> Shown:
    """Run the cells, and use what they show."""
    run = [lab_session.url, lab_session.token, kernel, [IN_COLAB, *cells(folder)]]
    page.evaluate("(all) => void run(...all)", run)
    outputs = page.locator(".output iframe")
    expect(outputs).to_have_count(2, timeout=DRAWN_MS)
    first, second = (outputs.nth(place).content_frame for place in range(2))
    shown = Shown(page, first, second)
    shown.draws()
    shown.moves()
    shown.answers_keys()
    shown.links()
    shown.opens_a_tab()
    shown.is_dark()
    return shown


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("kernel", [IPYWIDGETS_8, IPYWIDGETS_7])
def test_colab(
    kernel: str,
    open_page: Callable[[Path], Page],
    colab_manager: Path,
    lab_session: Lab,
    job4: str,
):
    shown = works(open_page(colab_manager), lab_session, kernel, job4)
    shown.screenshot(f"colab-{kernel}")


@pytest.mark.usefixtures("kernels")
@pytest.mark.skipif(not PUBLISHED.is_file(), reason=f"Colab's own manager is not at {PUBLISHED}")
def test_colab_with_its_own_manager(
    open_page: Callable[[Path], Page],
    lab_session: Lab,
    job4: str,
):
    works(open_page(PUBLISHED), lab_session, IPYWIDGETS_7, job4).screenshot("colab-published")
