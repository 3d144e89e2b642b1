"""What-if and the critical path in a real JupyterLab."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.test_panels import cells, wait_for_charts


def test_knobs_act_together_and_are_taken_back(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = WhatIfPanel(job)\npanel"))
    wait_for_charts(page)
    recorded = page.python("panel.result.recorded_ms")
    for name, trait, value in (
        ("Host speed", "host_speed", 4),
        ("Communication hidden", "hidden_percent", 50),
    ):
        field = page.panel().get_by_role("spinbutton", name=name)
        field.fill(str(value))
        field.press("Enter")
        page.wait_for(f"panel.{trait}", value)
    page.panel().get_by_role("checkbox", name="Data is there").check()
    page.wait_for("panel.without_loading", True)
    assert page.python("panel.result.answer.gain_ms") > 0
    expect(page.panel()).to_contain_text(page.python("panel.result.finding"))
    page.screenshot("what_if")
    page.panel().get_by_role("checkbox", name="Data is there").uncheck()
    for name, value in (("Host speed", 1), ("Communication hidden", 0)):
        field = page.panel().get_by_role("spinbutton", name=name)
        field.fill(str(value))
        field.press("Enter")
    page.wait_for("panel.result.answer.step_ms", recorded)
    expect(page.panel()).to_contain_text("As recorded")


def test_the_path_selects_kernels_and_ranks(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = CriticalPathPanel(job)\npanel"))
    wait_for_charts(page)
    expect(page.panel()).to_contain_text(page.python("panel.result.finding"))
    page.panel().get_by_role("combobox", name="Table").select_option("pieces")
    page.wait_for("panel.listed", "pieces")
    page.wait_for("len(panel.table) == len(panel.result.pieces)", True)
    page.screenshot("critical_path")
