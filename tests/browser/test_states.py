"""What a panel says while it is computed, interrupted, or without a kernel."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_panels import cells, wait_for_charts

SLOW = """
import time

class SlowPanel(OverlapPanel):
    slow = False

    def analyse(self, ranks):
        while SlowPanel.slow:
            time.sleep(0.01)
        return super().analyse(ranks)

panel, other = SlowPanel(job), SlowPanel(job)
panel
"""

START = """(code) => {
    jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code });
}"""
INTERRUPT = "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()"
RESTART = "() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()"


def slow_panels(lab: Lab, folder: str) -> LabPage:
    page = lab.open([*cells(folder, SLOW), "other"], height=1500)
    wait_for_charts(page, 2)
    return page


def test_panels_that_a_cell_computes_are_busy_and_those_it_leaves_say_so(lab: Lab, job8: str):
    page = slow_panels(lab, job8)
    page.page.evaluate(START, "SlowPanel.slow = True; panel.selection.ranks = [3]")
    for number in range(2):
        expect(page.panel(number).get_by_role("status")).to_have_text("Computing…")
        expect(page.panel(number)).to_have_attribute("aria-busy", "true")
    page.screenshot("busy")
    page.page.evaluate(INTERRUPT)
    for number in range(2):
        expect(page.panel(number).get_by_role("status")).to_contain_text("Interrupted")
        expect(page.panel(number).locator(".hta-finding")).not_to_contain_text("rank 3")
    page.screenshot("interrupted")
    page.execute("SlowPanel.slow = False")
    page.panel(0).get_by_role("button", name="Compute").click()
    expect(page.panel(0).locator(".hta-finding")).to_contain_text("rank 3")
    expect(page.panel(0).get_by_role("status")).to_have_text("")
    expect(page.panel(1).get_by_role("status")).to_contain_text("Interrupted")
    assert page.python("'rank 3' in other.result.finding")
    expect(page.panel(1).get_by_role("status")).to_have_text("")


def test_a_touched_control_does_not_hide_that_the_kernel_has_gone(lab: Lab, job8: str):
    page = lab.open(cells(job8, "KernelBreakdownPanel(job)"), alone=True)
    wait_for_charts(page)
    page.page.evaluate(RESTART)
    status = page.panel().get_by_role("status")
    expect(status).to_contain_text("kernel has stopped")
    page.panel().get_by_role("slider", name="Top kernels").press("ArrowRight")
    page.page.wait_for_timeout(1000)
    expect(status).to_contain_text("kernel has stopped")
    page.screenshot("kernel_gone")


def test_a_progress_bar_leaves_no_broken_output(lab: Lab, job8: str):
    appear = "from hta_widgets import open_trace, progress\nprogress.DELAY_S = 0"
    opening = f"job = open_trace({job8!r}, progress=True)\njob.rank(0)\n1"
    page = lab.open([appear, opening], alone=True)
    expect(page.page.locator(".jp-OutputArea-output").last).to_contain_text("1")
    page.reload()
    page.page.wait_for_timeout(1000)
    expect(page.page.locator(".jp-OutputArea-output").last).to_contain_text("1")
    expect(page.page.get_by_text("Error displaying widget")).to_have_count(0)
    page.screenshot("progress_reloaded")
