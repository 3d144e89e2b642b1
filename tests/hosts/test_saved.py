"""A notebook that is opened again, not trusted: no widget runs, and its outputs answer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.lab_pages import CELLS_MS, KERNEL_IS_IDLE, Lab, jupyter
from tests.hosts.shown import keep_picture, shows_summary

ADDRESSES = {"notebook": "notebooks", "nbclassic": "nbclassic/notebooks"}


@pytest.fixture
def page(lab_session: Lab, executed: nbformat.NotebookNode) -> Iterator[Page]:
    name = f"{secrets.token_hex(4)}.ipynb"
    nbformat.write(executed, lab_session.root / name)
    page = lab_session.browser.new_page(viewport={"width": 1300, "height": 1500})
    page.goto(f"{lab_session.url}/doc/tree/{name}?token={lab_session.token}")
    page.wait_for_function(KERNEL_IS_IDLE, timeout=CELLS_MS)
    yield page
    page.close()


def test_it_shows_findings_charts_and_rows(page: Page):
    change = "name => jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
    for theme in ("Light", "Dark"):
        page.evaluate(change, f"JupyterLab {theme}")
        shows_summary(page)
        expect(page.locator(".hta-panel")).to_have_count(0)
        expect(page.locator("svg text")).to_have_count(0)
        keep_picture(page, f"saved-{theme.lower()}")


@pytest.mark.parametrize("app", ADDRESSES)
def test_other_applications_show_it_too(
    app: str, chromium: Browser, executed: nbformat.NotebookNode, tmp_path: Path
):
    with jupyter(app, tmp_path) as (url, token, root):
        nbformat.write(executed, root / "again.ipynb")
        page = chromium.new_page(viewport={"width": 1300, "height": 1500})
        page.goto(f"{url}/{ADDRESSES[app]}/again.ipynb?token={token}")
        shows_summary(page)
        expect(page.locator(".hta-panel")).to_have_count(0)
        keep_picture(page, f"saved-{app}")
        page.close()
