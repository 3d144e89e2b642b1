"""What twelve panels cost a page and a notebook, and how soon a slider is answered."""

from __future__ import annotations

import statistics

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab

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

MOVE = """async (value) => {
    const slider = document.querySelector('.hta-panel input[type=range]');
    const chart = document.querySelectorAll('.hta-panel .js-plotly-plot')[1];
    const drawn = new Promise((done, fail) => {
        chart.once('plotly_afterplot', done);
        setTimeout(() => fail(new Error(`nothing is drawn at ${value}`)), 10_000);
    });
    const start = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    await drawn;
    return performance.now() - start;
}"""

ZOOM = """async (key) => {
    const chart = document.querySelector('.hta-panel .js-plotly-plot');
    const drawn = new Promise((done) => chart.once('plotly_react', done));
    const start = performance.now();
    const press = new KeyboardEvent('keydown', { key, bubbles: true });
    chart.closest('.hta-figure').dispatchEvent(press);
    await drawn;
    return performance.now() - start;
}"""


def test_twelve_panels_stay_below_a_megabyte(lab: Lab, job8: str):
    page = lab.open([TWELVE.format(folder=job8)])
    expect(page.page.locator(".hta-panel")).to_have_count(12)
    expect(page.panel(0).locator(".main-svg").first).to_be_visible()
    page.page.wait_for_timeout(500)
    saved = page.save()
    assert page.received_bytes < MEGABYTE, page.received_bytes
    assert saved < MEGABYTE, saved


def test_modules_are_loaded_once(lab: Lab, job8: str):
    page = lab.open([TWELVE.format(folder=job8)])
    expect(page.panel(0).locator(".main-svg").first).to_be_visible()
    loaded = page.page.evaluate("() => globalThis[Symbol.for('hta_widgets.modules')].size")
    assert loaded == 2


def test_nothing_is_fetched_from_elsewhere(lab: Lab, job8: str):
    page = lab.open([TWELVE.format(folder=job8)])
    expect(page.panel(0).locator(".main-svg").first).to_be_visible()
    fetched = page.page.evaluate(
        "() => performance.getEntriesByType('resource').map(({name}) => name)"
    )
    assert [name for name in fetched if not name.startswith(("blob:", "data:", lab.url))] == []


def test_a_slider_is_answered_at_once(lab: Lab, job8: str):
    page = lab.open(
        [
            "from hta_widgets.panels import *",
            f"panel = LaunchStatsPanel({job8!r})\npanel",
        ]
    )
    expect(page.panel().locator(".main-svg").nth(2)).to_be_visible()
    times = [page.page.evaluate(MOVE, str(value)) for value in range(2, 42, 2)]
    assert statistics.median(times) < 250, times


def test_a_zoom_is_answered_at_once(lab: Lab, job8: str):
    page = lab.open(
        ["from hta_widgets.panels import *", f"panel = QueueLengthPanel({job8!r})\npanel"]
    )
    expect(page.panel().locator(".main-svg").first).to_be_visible()
    keys = ["+", "+", "ArrowLeft", "ArrowRight", "-", "-"] * 3
    times = [page.page.evaluate(ZOOM, key) for key in keys]
    assert statistics.median(times) < 250, times


def test_only_panels_in_sight_are_recomputed(lab: Lab, job8: str):
    page = lab.open([TWELVE.format(folder=job8)], height=700)
    expect(page.panel(0).locator(".main-svg").first).to_be_visible()
    page.wait_for("[panel._visible for panel in panels][-1]", expected=False)
    page.page.locator(".jp-WindowedPanel-outer").first.evaluate("node => node.scrollTo(0, 0)")
    page.execute("panels[0].ranks = [2]")
    assert page.python("sum(panel._stale for panel in panels) >= 6")
    page.panel(11).scroll_into_view_if_needed()
    page.wait_for("panels[11]._stale", expected=False)
