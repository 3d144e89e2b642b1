"""Colab in its dark theme: its published widget manager in a frame of its own per output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.lab_pages import Lab
from tests.conftest import REAL_TRACES
from tests.hosts.conftest import HERE
from tests.hosts.shown import DRAWN_MS, Shown, cells

MANAGER = REAL_TRACES.parent / "tools" / "hosts" / "vendor" / "colab_manager.js"
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
def page(lab_session: Lab, colab_script: Path, anywidget_amd: Path) -> Iterator[Page]:
    if not MANAGER.is_file():
        pytest.skip(f"Colab's widget manager is not at {MANAGER}")
    files = {"colab.js": colab_script, "colab_manager.js": MANAGER, "": HERE / "colab_frame.html"}

    def answer(route: Route) -> None:
        name = urlsplit(route.request.url).path.rpartition("/")[2]
        headers = {"Access-Control-Allow-Origin": "*"}
        route.fulfill(path=files.get(name, anywidget_amd), headers=headers)

    page = lab_session.browser.new_page(viewport={"width": 1300, "height": 1500})
    for address in (f"{lab_session.url}/colab/**", "https://frame.test/**", "https://cdn.*/**"):
        page.route(address, answer)
    page.goto(f"{lab_session.url}/login")
    page.set_content(PAGE)
    page.wait_for_function("() => globalThis.run !== undefined")
    yield page
    page.close()


def test_colab(page: Page, lab_session: Lab, job4: str):
    all_cells = [IN_COLAB, *cells(job4)]
    page.evaluate("(all) => void run(...all)", [lab_session.url, lab_session.token, all_cells])
    outputs = page.locator(".output iframe")
    expect(outputs).to_have_count(2, timeout=DRAWN_MS)
    first, second = (outputs.nth(place).content_frame for place in range(2))
    shown = Shown(page, first, second)
    shown.draws()
    shown.moves()
    shown.links()
    shown.is_dark()
    shown.screenshot("colab")
