"""The launch panel in a real JupyterLab."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.test_panels import cells, wait_for_charts


def test_a_cutoff_beyond_all_delays_leaves_no_chart_of_them(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = LaunchStatsPanel(job)\npanel"))
    wait_for_charts(page)
    page.screenshot("launch_stats")
    field = page.panel().get_by_role("spinbutton", name="Delays longer than")
    field.fill("10000000")
    field.press("Enter")
    page.wait_for("panel.launch_delay_cutoff", 10_000_000)
    expect(page.panel().get_by_text("No work started more than 10 s after")).to_be_visible()
    expect(page.panel().get_by_text("Long launch delays")).to_have_count(0)
