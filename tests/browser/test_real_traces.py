"""Every panel on a real trace: acted on, then checked in Python and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.lab_pages import Lab, LabPage


def open_panel(lab: Lab, traces: Path, job: str, panel: str) -> LabPage:
    source = str(traces / "kineto" / job)
    page = lab.open(["from hta_widgets.panels import *", f"panel = {panel}({source!r})\npanel"])
    expect(page.panel().locator(".js-plotly-plot .main-svg").first).to_be_visible()
    return page


@pytest.mark.parametrize(
    ("panel", "job", "choice", "trait", "value"),
    [
        ("TemporalBreakdownPanel", "dlrm_2rank", "Time", "as_percent", False),
        ("OverlapPanel", "dlrm_2rank", "Time", "as_percent", False),
        ("KernelBreakdownPanel", "compare_control", "Pies", "view", "pies"),
        ("IdleTimePanel", "dlrm_2rank", "Share", "visualize_pctg", True),
        ("LaunchStatsPanel", "h100_qwen", "Call duration", "worst_by", "cpu_duration"),
        ("KernelSequencesPanel", "compare_control", "GPU time", "as_time", True),
        ("CuptiCountersPanel", "cupti_counters", "Mean", "statistic", "mean"),
    ],
)
def test_a_choice(lab: Lab, real_traces: Path, *, panel, job, choice, trait, value):
    page = open_panel(lab, real_traces, job, panel)
    before = page.charts()
    page.panel().get_by_role("radio", name=choice, exact=True).check(force=True)
    page.wait_for(f"panel.{trait}", value)
    expect(page.panel().locator(".hta-error")).to_be_hidden()
    assert page.python("len(panel.table) > 0")
    if panel != "LaunchStatsPanel":
        page.wait_until(lambda: page.charts() != before)


@pytest.mark.parametrize("panel", ["QueueLengthPanel", "MemoryBandwidthPanel"])
def test_a_zoom(lab: Lab, real_traces: Path, panel: str):
    page = open_panel(lab, real_traces, "compare_control", panel)
    box = page.panel().locator(".js-plotly-plot").first.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 65, steps=6)
    page.page.mouse.up()
    page.wait_for("len(panel.window_us)", 2)
    assert page.python("panel.window_us[1] - panel.window_us[0] < 80_000")
