"""The idle time panel in a real JupyterLab."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.test_panels import cells, wait_for_charts


def test_a_typed_delay_moves_idle_time_between_causes(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = IdleTimePanel(job)\npanel"))
    wait_for_charts(page)
    field = page.panel().get_by_role("spinbutton", name="Kernel waits shorter than")
    field.fill("500")
    field.press("Enter")
    page.wait_for("panel.consecutive_kernel_delay", 500)
    assert page.python("panel.result.finding.endswith(' 0 % other.')")
    page.screenshot("idle_time")


def test_gpus_instead_of_streams(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = IdleTimePanel(job)\npanel"))
    wait_for_charts(page)
    page.panel().get_by_role("radio", name="GPUs").check(force=True)
    expect(page.panel().locator(".bars").first.locator(".point")).to_have_count(8)
    page.wait_for("list(panel.figures)", ["Idle time of each GPU"])
    page.screenshot("idle_time_gpus")
