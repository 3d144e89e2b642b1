"""A page of a dashboard is short: each tab shows one view, and no view is longer than a screen."""

from __future__ import annotations

from itertools import pairwise

from playwright.sync_api import Locator, expect

from hta_widgets.sample import write_sample
from tests.browser.lab_pages import Lab
from tests.browser.test_accessibility import IS_DRAWN
from tests.browser.test_dashboard import MARGINS, board, dashboard

FIRST_PX = 1_400
"""Highest that the page of eight ranks may be before anybody clicks."""

MANY_PX = {1100: 900, 1480: 800}
"""The same of many ranks, by the width of the page."""

TOPS_AND_HEIGHTS = """labels => labels.map(label => {
    const { top, height } = label.getBoundingClientRect();
    return [top, height];
})"""

LINE_PX = 20

VIEW_PX = 1_150
"""Highest that what a tab shows may be."""


def test_no_view_is_longer_than_a_screen(lab: Lab, job8: str):
    page = board(lab, job8)
    assert dashboard(page).bounding_box()["height"] <= FIRST_PX
    shown = dashboard(page).locator(".hta-tab-page")
    heights = {}
    for panel in page.python("[name for name, panel in dash.panels.items() if panel.tab]"):
        page.execute(f"dash.panel = {panel!r}")
        expect(dashboard(page).get_by_role("tab", selected=True)).to_have_count(1)
        page.page.wait_for_function(IS_DRAWN)
        heights[panel] = round(shown.bounding_box()["height"])
    assert {panel: height for panel, height in heights.items() if height > VIEW_PX} == {}


def test_a_page_of_many_ranks_is_short(lab: Lab, tmp_path):
    """Their lanes are one line high, and of the bars of ranks those are drawn that say most.

    A finding that is shown makes it a line higher. With chips, the way through its windows and all
    behind the bar it was 35 px.
    """
    write_sample(tmp_path, ranks=33, steps=3, progress=False)
    page = board(lab, str(tmp_path))
    page.execute("dash.panel = 'ranks'")
    expect(dashboard(page).locator(".hta-tab-page .ytick").first).to_be_visible()
    for width, highest in MANY_PX.items():
        page.page.set_viewport_size({"width": width + MARGINS, "height": 1400})
        # Charts are drawn anew some frames after a page has got another width.
        page.wait_until(lambda most=highest: dashboard(page).bounding_box()["height"] <= most)
        page.screenshot(f"many ranks {width}")
    assert page.python("len(dash.table)") == 33
    page.wait_until(lambda: labels_are_apart(dashboard(page)))
    ticks = dashboard(page).locator(".hta-tab-page .ytick text")
    assert sum("more" in text for text in ticks.all_text_contents()) == 2
    frame = "bands => bands.reduce((sum, band) => sum + band.getBoundingClientRect().height, 0)"
    bands = dashboard(page).locator(".hta-board > :not(.hta-tabs, .hta-drawer)")
    before = bands.evaluate_all(frame)
    dashboard(page).get_by_role("button", name="Show").first.click()
    expect(dashboard(page).locator(".hta-ghost")).to_be_visible()
    expect(dashboard(page).get_by_role("button", name="Next occurrence").first).to_be_visible()
    assert bands.evaluate_all(frame) - before <= LINE_PX


def test_a_table_of_eight_ranks_has_them_all_in_sight(lab: Lab, job8: str):
    page = board(lab, job8)
    page.execute("dash.panel = 'ranks'")
    table = dashboard(page).locator(".hta-tab-page .hta-table")
    expect(table.locator("tr[data-place]")).to_have_count(8)
    assert table.evaluate("each => each.scrollHeight <= each.clientHeight")


def labels_are_apart(shown: Locator) -> bool:
    """Whether no label of the charts of a tab lies on the next."""
    tops = shown.locator(".hta-tab-page .ytick text").evaluate_all(TOPS_AND_HEIGHTS)
    return len(tops) > 2 and all(
        top + 0.75 * height <= below for (top, height), (below, _) in pairwise(sorted(tops))
    )


BESIDE_CODE = """buttons => buttons.map(button => {
    const last = [...button.previousElementSibling.getClientRects()].at(-1);
    const { top, bottom } = button.getBoundingClientRect();
    return top < last.bottom && bottom > last.top;
})"""


def test_nothing_of_the_header_is_cut_and_no_copy_button_stands_alone(lab: Lab, real_traces):
    traces = real_traces / "kineto"
    page = board(lab, str(traces / "sglang_decode_graph"))
    for width in (1100, 1480):
        page.page.set_viewport_size({"width": width + MARGINS, "height": 1400})
        facts = dashboard(page).locator(".hta-facts")
        expect(facts).to_contain_text("tokens/s")
        assert facts.evaluate("each => each.scrollWidth <= each.clientWidth")
        buttons = dashboard(page).locator(".hta-line-code > button")
        expect(buttons.first).to_be_visible()
        assert all(buttons.evaluate_all(BESIDE_CODE))
        codes = dashboard(page).locator(".hta-line-code > code")
        assert set(
            codes.evaluate_all("each => each.map((code) => code.getClientRects().length)")
        ) == {1}
