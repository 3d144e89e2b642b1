"""The menus of a dashboard whose traces hold several cycles."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_accessibility import AXE, RUN_AXE
from tests.browser.test_dashboard import MARGINS, STICKING_OUT, dashboard
from tests.browser.test_panels import cells
from tests.recorded_folders import cycles, write_folder


@pytest.fixture
def page(lab: Lab, tmp_path) -> LabPage:
    folder = write_folder(tmp_path / "run", cycles(2, 3))
    page = lab.open(cells(str(folder), "dash = Dashboard(job)\ndash"), width=1230)
    expect(menu(page, "Cycle")).to_be_visible()
    return page


def title(page: LabPage) -> Locator:
    return dashboard(page).locator(".hta-board-header > .hta-title")


def menu(page: LabPage, label: str) -> Locator:
    return dashboard(page).get_by_label(label, exact=True)


def test_another_cycle_is_shown_where_the_first_was(page: LabPage):
    shown = dashboard(page)
    expect(title(page)).to_have_text("run, cycle 2")
    expect(menu(page, "Cycle").locator("option")).to_have_count(3)
    facts = shown.locator(".hta-facts")
    expect(facts).to_contain_text("step 12")
    shown.get_by_role("tab", name="Kernels").click()
    expect(shown.locator(".hta-tab-page").get_by_role("grid").first).to_be_visible()
    menu(page, "Cycle").focus()
    menu(page, "Cycle").select_option("0")
    expect(title(page)).to_have_text("run, cycle 0")
    expect(facts).to_contain_text("step 2")
    expect(shown.get_by_role("tab", name="Kernels")).to_have_attribute("aria-selected", "true")
    expect(shown.locator(".hta-tab-page").get_by_role("grid").first).to_be_visible()
    expect(menu(page, "Cycle")).to_be_focused()
    expect(menu(page, "Cycle")).to_have_value("0")
    assert page.python("dash.cycle") == 0
    assert page.python("dash._visible")
    assert shown.locator(".hta-board").count() == 1
    # The selection of the new cycle is followed, in both directions.
    page.execute("dash.selection.ranks = [1]")
    expect(shown.locator(".hta-chips")).to_contain_text("rank 1")
    shown.locator(".hta-chip").first.click()
    page.wait_for("dash.selection.ranks", [])
    page.screenshot("dashboard, another cycle")


def test_two_cycles_are_compared_by_one_click(page: LabPage):
    shown = dashboard(page)
    shown.get_by_role("tab", name="Compare").click()
    shown.locator(".hta-offers").get_by_role("button", name="cycle 1").click()
    expect(shown.get_by_role("radio", name="Kernels compared")).to_have_count(1)
    expect(shown.locator(".hta-tab-page .main-svg").first).to_be_visible()
    assert page.python("(dash.cycle, dash.compare.cycle)") == [2, 1]
    page.screenshot("dashboard, cycles compared")
    shown.get_by_role("radio", name="Compare with…").check()
    expect(shown.locator(".hta-second")).to_contain_text("Compared with run, cycle 1")
    shown.get_by_role("button", name="Stop comparing").click()
    page.wait_for("dash.compare is None", True)


def test_a_cycle_that_cannot_be_opened_is_said_and_the_menu_stays(page: LabPage):
    page.execute("for each in job.cycles[0].sources.values(): each.path.unlink()")
    menu(page, "Cycle").select_option("0")
    expect(dashboard(page)).to_contain_text("cannot be read")
    expect(dashboard(page).locator(".hta-cycles")).to_have_attribute("aria-busy", "false")
    expect(menu(page, "Cycle")).to_have_value("2")


def test_the_menus_fit_and_can_be_used_by_all(page: LabPage):
    page.page.add_script_tag(path=str(AXE))
    for width in (500, 700, 1100):
        page.page.set_viewport_size({"width": width + MARGINS, "height": 900})
        page.wait_until(lambda: dashboard(page).evaluate(STICKING_OUT) == [])
        page.screenshot(f"dashboard with cycles {width}")
        assert page.page.evaluate(RUN_AXE) == []
