"""A page of a dashboard is short: each tab shows one view, and no view is longer than a screen."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.test_accessibility import IS_DRAWN
from tests.browser.test_dashboard import board, dashboard

FIRST_PX = 1_400
"""Highest that the page of eight ranks may be before anybody clicks."""

VIEW_PX = 1_150
"""Highest that what a tab shows may be."""


def test_no_view_is_longer_than_a_screen(lab: Lab, job8: str):
    page = board(lab, job8)
    assert dashboard(page).bounding_box()["height"] <= FIRST_PX
    shown = dashboard(page).locator(".hta-tab-page")
    heights = {}
    for panel in page.python("[name for name, panel in dash.panels.items() if panel.tab]"):
        page.execute(f"dash.panel = {panel!r}")
        expect(dashboard(page).get_by_role("tab", selected=True)).to_have_count(1)
        page.page.wait_for_function(IS_DRAWN)
        heights[panel] = round(shown.bounding_box()["height"])
    assert {panel: height for panel, height in heights.items() if height > VIEW_PX} == {}
