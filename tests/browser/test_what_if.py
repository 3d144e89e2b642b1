"""What-if and the critical path in a real JupyterLab."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.test_panels import cells, wait_for_charts


def test_knobs_act_together_and_are_taken_back(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = WhatIfPanel(job)\npanel"))
    expect(page.panel()).to_contain_text("As recorded")
    recorded = page.python("panel.result.recorded_ms")
    for name, trait, value in (
        ("Host speed", "host_speed", 4),
        ("Communication hidden", "hidden_percent", 50),
    ):
        field = page.panel().get_by_role("spinbutton", name=name)
        field.fill(str(value))
        field.press("Enter")
        page.wait_for(f"panel.{trait}", value)
    page.panel().get_by_role("checkbox", name="Input data always ready").check()
    page.wait_for("panel.without_loading", True)
    assert page.python("panel.result.answer.gain_ms") > 0
    expect(page.panel()).to_contain_text(page.python("panel.result.finding"))
    wait_for_charts(page)
    page.screenshot("what_if")
    page.panel().get_by_role("checkbox", name="Input data always ready").uncheck()
    for name, value in (("Host speed", 1), ("Communication hidden", 0)):
        field = page.panel().get_by_role("spinbutton", name=name)
        field.fill(str(value))
        field.press("Enter")
    page.wait_for("panel.result.answer.step_ms", recorded)
    expect(page.panel()).to_contain_text("As recorded")


def test_a_shown_finding_turns_no_knob_and_what_is_ticked_is_taken_out(lab: Lab, job4: str):
    page = lab.open(cells(job4, "dash = Dashboard(job)\ndash"), width=1230, height=1300)
    board = page.page.locator(".hta-dashboard")
    height = board.locator(".hta-what-if").bounding_box()["height"]
    board.get_by_role("button", name="Show").first.click()
    page.wait_for("dash.selection.finding", 0)
    expect(board.locator(".hta-chips")).to_contain_text("finding 1")
    knobs = board.locator(".hta-what-if")
    expect(knobs.get_by_role("checkbox", name="Input data always ready")).not_to_be_checked()
    assert knobs.bounding_box()["height"] == height  # what is shown stays where it was
    board.get_by_role("checkbox", name="Include finding 1").uncheck()
    page.wait_for("list(dash.unticked)", [0])
    expect(board.locator(".hta-together")).to_have_text(page.python("dash._together"))
    assert page.python("len(dash.findings)") > 2
    expect(board.locator(".hta-together")).to_contain_text("Without 4 findings")
    canvas = board.locator(".hta-band-timeline canvas").bounding_box()
    page.page.mouse.move(canvas["x"] + 0.5 * canvas["width"], canvas["y"] + 60)
    page.page.mouse.down()
    page.page.mouse.move(canvas["x"] + 0.7 * canvas["width"], canvas["y"] + 60)
    page.page.mouse.up()
    page.wait_for("dash.selection.finding", None)
    expect(board.locator(".hta-chips")).not_to_contain_text("finding")


def test_the_path_selects_kernels_and_ranks(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = CriticalPathPanel(job)\npanel"))
    wait_for_charts(page)
    expect(page.panel()).to_contain_text(page.python("panel.result.finding"))
    page.panel().get_by_role("combobox", name="Table").select_option("pieces")
    page.wait_for("panel.listed", "pieces")
    page.wait_for("len(panel.table) == len(panel.result.pieces)", True)
    page.screenshot("critical_path")


def test_a_knob_that_changes_nothing_says_why(lab: Lab, real_traces: Path):
    source = str(real_traces / "kineto" / "ddp_rank1of2")
    page = lab.open(cells(source, "dash = Dashboard(job)\ndash"), width=1230, height=1300)
    knobs = page.page.locator(".hta-what-if")
    field = knobs.get_by_role("spinbutton", name="Communication hidden")
    field.fill("100")
    field.press("Enter")
    page.wait_for("dash.panels['what_if'].hidden_percent", 100)
    expect(knobs).to_contain_text("no change, as the host is the bottleneck (100 % of the critical")
    assert page.python("dash.panels['what_if'].result.answer.gain_ms") == 0
    page.screenshot("what_if, no change")
