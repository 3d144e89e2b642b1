"""*Show* of every finding of real traces: selected, counted, lit, in the panel that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_dashboard import MARGINS, dashboard

TRACES = (
    "kineto/b200_eager",
    "kineto/compare_control",
    "kineto/mi210_gpu_only",
    "kineto/mi300_timesformer",
    "kineto/ns_resolution",
    "kineto/sglang_decode_graph",
    "kineto/triton",
    "more/dlrm_8rank",
    "nsys/h100_2gpu_1s.sqlite",
)

HIGHEST_PX = 1_650
"""Of a page while a finding is shown, with the kernel, the what-if and the panel of it."""

LIT = """canvas => {
    const accent = canvas.ownerDocument.createElement('canvas').getContext('2d');
    const page = canvas.closest('.hta-panel');
    accent.fillStyle = getComputedStyle(page).getPropertyValue('--hta-accent');
    accent.fillRect(0, 0, 1, 1);
    const wanted = accent.getImageData(0, 0, 1, 1).data;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4)
        if ([0, 1, 2].every(each => data[at + each] === wanted[each])) count += 1;
    return count;
}"""
"""Number of pixels of the timeline that have the colour of what is lit, and of what is selected."""

LEAST_LIT = 12
"""Pixels of the shortest bars: 4 px high, and as long as anybody sees."""


def held(page: LabPage, finding: int, place: int) -> tuple[int, float]:
    """Intervals of a finding that are in a window, and their share (%), added one by one."""
    proof = f"dash.findings.proof(dash.findings[{finding}])"
    rows = page.python(f"{proof}.intervals[['start_ns', 'end_ns']].to_numpy().tolist()")
    window = page.python(f"{proof}.windows[['start_ns', 'end_ns']].to_numpy().tolist()[{place}]")
    inside = [min(end, window[1]) - max(start, window[0]) for start, end in rows]
    lasting = [each for each in inside if each > 0]
    return len(lasting), 100 * sum(lasting) / sum(end - start for start, end in rows)


def check_lit(page: LabPage, canvas: Locator) -> None:
    """Check that the timeline has bars, by taking them away."""
    page.page.wait_for_timeout(300)
    with_bars = canvas.evaluate(LIT)
    page.execute("dash.panels['timeline']._lit = []")
    page.wait_until(lambda: canvas.evaluate(LIT) <= with_bars - LEAST_LIT)


@pytest.mark.parametrize("trace", TRACES)
def test_show_is_the_proof(lab: Lab, real_traces: Path, trace: str):
    source = str(real_traces / trace)
    cell = f"from hta_widgets import Dashboard\ndash = Dashboard({source!r})\ndash"
    page = lab.open([cell], width=1100 + MARGINS, height=1600)
    shown = dashboard(page)
    rows = shown.locator(".hta-findings li")
    expect(rows.first).to_be_visible()
    for finding in range(page.python("len(dash.findings)")):
        row = rows.nth(finding)
        show = row.get_by_role("button", name="Show")
        if not show.is_visible():
            continue  # behind "more"
        show.click()
        page.wait_for("dash.selection.finding", finding)
        count, percent = held(page, finding, 0)
        said = row.get_by_role("status")
        expect(said).to_contain_text(f"· {count:,} of ")
        holds = re.search(r"this window holds ([\d.,]+)", said.inner_text())
        assert holds is not None
        assert float(holds[1]) == pytest.approx(percent, rel=0.01)
        assert page.python("dash.panel") == page.python(f"dash.findings[{finding}].links[0].panel")
        canvas = shown.locator(".hta-band-timeline canvas")
        bars = page.python("dash.panels['timeline']._lit")
        assert len(bars) == page.python(
            f"dash.findings.proof(dash.findings[{finding}]).intervals['rank'].nunique()"
        )
        check_lit(page, canvas)
        assert shown.bounding_box()["height"] <= HIGHEST_PX
        page.screenshot(f"show {trace.replace('/', ' ')} {finding}")
        show.click()
        page.wait_for("dash.selection.finding", None)
    assert page.dialogs == []
