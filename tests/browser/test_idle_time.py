"""The idle time panel in a real JupyterLab."""

from __future__ import annotations

from tests.browser.lab_pages import Lab
from tests.browser.test_panels import cells, wait_for_charts


def test_a_typed_delay_moves_idle_time_between_causes(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = IdleTimePanel(job)\npanel"))
    wait_for_charts(page)
    field = page.panel().get_by_role("spinbutton", name="Kernel-to-kernel gaps: under")
    field.fill("500")
    field.press("Enter")
    page.wait_for("panel.consecutive_kernel_delay", 500)
    assert page.python("'held back' not in panel.result.finding")
    page.screenshot("idle_time")


def test_times_after_shares_have_a_range_of_their_own(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = IdleTimePanel(job)\npanel"))
    wait_for_charts(page)
    plot = page.panel().locator(".js-plotly-plot").first
    ends = []
    for show in ("Time", "Share", "Time"):
        page.panel().get_by_role("radio", name=show).check(force=True)
        page.wait_for("panel.visualize_pctg", show == "Share")
        page.page.wait_for_timeout(500)
        ends.append(plot.evaluate("node => node._fullLayout.yaxis.range"))
    assert ends[1] == [0, 100]
    assert ends[2] == ends[0]
    assert ends[0][0] == 0


def test_streams_instead_of_gpus(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = IdleTimePanel(job)\npanel"))
    wait_for_charts(page)
    page.panel().get_by_role("radio", name="Streams").check(force=True)
    page.wait_for("list(panel.figures)", ["Idle time of each stream"])
    page.screenshot("idle_time_streams")


def test_the_owners_of_idle_time(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = IdleOwnersPanel(job)\npanel"))
    wait_for_charts(page)
    page.panel().get_by_role("radio", name="Queue drains").check(force=True)
    page.wait_for("panel.listed", "drains")
    field = page.panel().get_by_role("spinbutton", name="Top owners")
    field.fill("4")
    field.press("Enter")
    page.wait_for("panel.num_owners", 4)
    page.screenshot("idle_owners")
