"""What twelve panels cost a page and a notebook, and what a move of a slider costs."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect

from hta_widgets.panels.base.summary import SUMMARY_BYTES
from tests.browser.lab_pages import Lab, LabPage

MEGABYTE = 1_000_000

TWELVE = """
from hta_widgets import open_trace
from hta_widgets.panels.dashboard import PANELS
from IPython.display import display
job = open_trace({folder!r})
kinds = [*PANELS.values()] * 2
panels = [kind(job) for kind in kinds[:12]]
display(*panels)
"""

MODULES_LOADED = "() => globalThis[Symbol.for('hta_widgets.modules')].size"
FETCHED = "() => performance.getEntriesByType('resource').map(({name}) => name)"

COUNT_DRAWINGS = """(place) => {
    const chart = document.querySelectorAll('.hta-panel .js-plotly-plot')[place];
    globalThis.drawings = 0;
    chart.on('plotly_react', () => { globalThis.drawings += 1; });
}"""

DRAWN = "(count) => globalThis.drawings >= count"

MOVE = """(values) => {
    const slider = document.querySelector('.hta-panel input[type=range]');
    for (const value of values) {
        slider.value = value;
        slider.dispatchEvent(new Event('input', { bubbles: true }));
    }
}"""


def test_twelve_panels_stay_below_a_megabyte_and_fetch_nothing(lab: Lab, job8: str):
    page = lab.open([TWELVE.format(folder=job8)], alone=True)
    expect(page.page.locator(".hta-panel")).to_have_count(12)
    expect(page.panel(0).locator(".main-svg").first).to_be_visible()
    page.page.wait_for_timeout(500)
    saved = page.save()
    summaries = summary_sizes(page.path)
    assert page.received_bytes < MEGABYTE, page.received_bytes
    assert saved - sum(summaries) < MEGABYTE, (saved, summaries)
    assert len(summaries) == 12
    assert max(summaries) <= SUMMARY_BYTES
    assert page.page.evaluate(MODULES_LOADED) == 2
    fetched = page.page.evaluate(FETCHED)
    assert [name for name in fetched if not name.startswith(("blob:", "data:", lab.url))] == []


def summary_sizes(notebook: Path) -> list[int]:
    """Bytes of what each output of a notebook shows without widgets."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return [
        len("".join(output["data"]["text/html"]).encode())
        for output in outputs
        if "text/html" in output.get("data", {})
    ]


def launch_stats(lab: Lab, folder: str) -> LabPage:
    """A panel whose slider changes its second chart, of which the drawings are counted."""
    cells = ["from hta_widgets.panels import *", f"panel = LaunchStatsPanel({folder!r})\npanel"]
    page = lab.open(cells)
    expect(page.panel().locator(".main-svg").nth(2)).to_be_visible()
    page.page.evaluate(COUNT_DRAWINGS, 1)
    return page


def test_a_step_of_a_slider_is_one_request_and_one_drawing(lab: Lab, job8: str):
    page = launch_stats(lab, job8)
    asked = page.python("panel._req")
    for count, value in enumerate(range(2, 22, 2), start=1):
        page.page.evaluate(MOVE, [value])
        page.page.wait_for_function(DRAWN, arg=count)
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("globalThis.drawings") == count
    assert page.python("panel._req") == asked + count


def test_steps_that_come_too_fast_are_put_together(lab: Lab, job8: str):
    page = launch_stats(lab, job8)
    asked = page.python("panel._req")
    page.page.evaluate(MOVE, [*range(2, 42)])
    page.wait_for("panel.runtime_cutoff", 41)
    assert page.python("panel._req") == asked + 2


def test_a_zoom_is_one_request_and_one_drawing(lab: Lab, job8: str):
    page = lab.open(
        ["from hta_widgets.panels import *", f"panel = QueueLengthPanel({job8!r})\npanel"]
    )
    expect(page.panel().locator(".main-svg").first).to_be_visible()
    page.page.evaluate(COUNT_DRAWINGS, 0)
    asked = page.python("panel._req")
    page.panel().locator(".hta-figure").first.focus()
    for count, key in enumerate(["+", "+", "ArrowLeft", "ArrowRight", "-", "-"] * 2, start=1):
        page.page.keyboard.press(key)
        page.page.wait_for_function(DRAWN, arg=count)
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("globalThis.drawings") == count
    assert page.python("panel._req") == asked + count


def test_only_panels_in_sight_are_recomputed(lab: Lab, job8: str):
    page = lab.open([TWELVE.format(folder=job8)], height=700)
    expect(page.panel(0).locator(".main-svg").first).to_be_visible()
    page.wait_for("[panel._visible for panel in panels][-1]", expected=False)
    page.page.locator(".jp-WindowedPanel-outer").first.evaluate("node => node.scrollTo(0, 0)")
    page.execute("panels[0].ranks = [2]")
    assert page.python("sum(panel._outdated for panel in panels) >= 6")
    page.panel(11).scroll_into_view_if_needed()
    page.wait_for("panels[11]._outdated", expected=False)
