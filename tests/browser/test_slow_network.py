"""A slider on a network where every message takes 150 ms each way: few messages, none stale."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.slow_network import delayed

DELAY_S = 0.15
EVENTS = 44
MESSAGES_AT_MOST = 14

PANEL = """
from hta_widgets import progress
progress.DELAY_S = 0  # widgets that are closed again before those of the panel open
from hta_widgets.panels import KernelBreakdownPanel
panel = KernelBreakdownPanel({folder!r}, num_kernels={most}, duration_ratio=1)
panel
"""

WATCH = """() => {
    const chart = document.querySelectorAll('.hta-panel .js-plotly-plot')[1];
    globalThis.drawn = [];
    chart.on('plotly_react', () => globalThis.drawn.push(chart.calcdata[0].length));
}"""

DRAG = """async (values) => {
    const slider = document.querySelector('.hta-panel input[type=range]');
    for (const value of values) {
        slider.value = value;
        slider.dispatchEvent(new Event('input', { bubbles: true }));
        await new Promise((resolve) => setTimeout(resolve, 16));
    }
}"""

BARS = "len(panel.figures['Top kernels'].data[0].y)"


@pytest.fixture
def far(lab: Lab) -> Iterator[Lab]:
    """The same JupyterLab at a distance."""
    with delayed(urlsplit(lab.url).port or 0, DELAY_S) as port:
        distant = Lab(lab.browser, f"http://127.0.0.1:{port}", lab.token, lab.root)
        yield distant
        distant.close_pages()


def test_a_drag_is_a_few_messages_and_ends_with_the_last_value(far: Lab, job8: str):
    page = far.open([PANEL.format(folder=job8, most=EVENTS)], alone=True)
    expect(page.panel().locator(".main-svg").first).to_be_visible()
    before = len(page.sent)
    page.page.evaluate(WATCH)
    page.page.evaluate(DRAG, list(range(EVENTS, 0, -1)))
    page.wait_for("panel.num_kernels", 1)
    expect(page.panel()).to_have_attribute("aria-busy", "false")
    page.page.wait_for_function("bars => globalThis.drawn.at(-1) === bars", arg=page.python(BARS))
    asked = [message for message in page.sent[before:] if b'"_req"' in message]
    assert 2 <= len(asked) <= MESSAGES_AT_MOST
    assert page.python("panel._req") == len(asked)
    drawn = page.page.evaluate("globalThis.drawn")
    assert len(drawn) <= len(asked)
    assert drawn == sorted(drawn, reverse=True), "an older value was drawn after a newer one"
