"""The data table in JupyterLab: sorted, filtered, copied, saved, and a click selects."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_panels import cells, wait_for_charts

PAGE = 200
"""Rows that the front end asks for at once (js/src/tablerows.ts)."""


def opened(lab: Lab, folder: str, panel: str, *, alone: bool = False) -> LabPage:
    page = lab.open(cells(folder, f"panel = {panel}\npanel"), height=1300, alone=alone)
    wait_for_charts(page)
    page.panel().get_by_text(re.compile("Data table")).click()
    expect(grid(page)).to_be_visible()
    return page


def grid(page: LabPage) -> Locator:
    return page.panel().get_by_role("grid")


def column(page: LabPage, place: int) -> list[str]:
    cells = grid(page).locator(f"tr[data-place] td:nth-child({place + 1})")
    return [text.strip() for text in cells.all_text_contents()]


def test_a_table_is_sorted_by_all_of_its_rows(lab: Lab, job8: str):
    page = opened(lab, job8, "KernelBreakdownPanel(job, num_kernels=100, duration_ratio=1)")
    assert page.python("len(panel.table)") > 50
    counts = page.python("sorted(panel.table['count'].tolist())")
    place = page.python("list(panel.table.columns).index('count')")
    heading = grid(page).get_by_role("columnheader", name=re.compile("^count"))
    for expected in (counts[::-1], counts):
        heading.click()
        shown = [f"{value:,}" for value in expected[:20]]
        page.wait_until(lambda shown=shown: column(page, place)[:20] == shown)
    page.screenshot("table")
    with page.theme("Dark"):
        page.screenshot("table_dark")


def test_a_filter_finds_rows_that_were_not_sent(lab: Lab, job8: str):
    page = opened(lab, job8, "KernelBreakdownPanel(job, num_kernels=100, duration_ratio=1)")
    page.panel().get_by_role("searchbox").fill("/^Memcpy/")
    count = page.python("int(panel.table['name'].str.startswith('Memcpy').sum())")
    expect(grid(page)).to_have_attribute("aria-rowcount", str(count + 1))
    page.panel().get_by_role("searchbox").fill("/(/")
    expect(page.panel().get_by_text("not a valid regular expression")).to_be_visible()


SHADES = """frame => ['::before', '::after'].map(side =>
    getComputedStyle(frame.parentElement, side).opacity === '1')"""
"""Whether the left and the right side of a table are shaded."""

SCROLL = """(frame, share) => {
    frame.scrollLeft = share * (frame.scrollWidth - frame.clientWidth);
}"""


def test_the_sides_are_shaded_where_there_are_more_columns(lab: Lab, job8: str):
    page = opened(lab, job8, "KernelBreakdownPanel(job)")
    page.page.set_viewport_size({"width": 700, "height": 1300})
    frame = page.panel().locator(".hta-table")
    page.wait_until(lambda: frame.evaluate("frame => frame.scrollWidth > frame.clientWidth + 50"))
    box = frame.bounding_box()
    for share, shaded in ((0, [False, True]), (0.5, [True, True]), (1, [True, False])):
        frame.evaluate(SCROLL, share)
        page.wait_until(lambda shaded=shaded: frame.evaluate(SHADES) == shaded)
        assert frame.bounding_box() == box
        page.screenshot(f"table_sides_{share}")
    page.page.set_viewport_size({"width": 2500, "height": 1300})
    page.wait_until(lambda: frame.evaluate(SHADES) == [False, False])


def test_a_click_on_a_row_selects_in_python(lab: Lab, job8: str):
    page = opened(lab, job8, "KernelBreakdownPanel(job)")
    grid(page).locator("tr[data-place='0']").click()
    page.wait_for("panel.selection.kernel == panel.table['name'].iloc[0]", True)
    expect(grid(page).locator("tr.hta-marked").first).to_be_visible()
    page.screenshot("table_selected")
    grid(page).locator("tr[data-place='0']").click()
    page.wait_for("panel.selection.kernel", "")


def test_keys_select_and_add_ranks(lab: Lab, job8: str):
    page = opened(lab, job8, "TemporalBreakdownPanel(job)")
    grid(page).focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.page.keyboard.press(key)
    page.wait_for("panel.ranks", [2])
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Shift+Enter")
    page.wait_for("panel.ranks", [2, 3])
    expect(grid(page).locator("tr.hta-marked")).to_have_count(2)


@pytest.mark.parametrize("kernel", ["alive", "dead"])
def test_rows_are_saved_and_copied(lab: Lab, job8: str, tmp_path: Path, kernel: str):
    panel = "KernelBreakdownPanel(job, num_kernels=100, duration_ratio=1)"
    page = opened(lab, job8, panel, alone=kernel == "dead")
    rows = page.python("len(panel.table)")
    page.panel().locator(".hta-table").evaluate("frame => { frame.scrollTop = 1000; }")
    expect(grid(page).locator("tr[data-place='45'] td").first).not_to_be_empty()
    if kernel == "dead":
        assert rows > PAGE
        page.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
        expect(page.panel().get_by_role("status").first).to_contain_text("kernel has stopped")
        rows = PAGE
    with page.page.expect_download() as waiting:
        page.panel().get_by_role("button", name="CSV").click()
    waiting.value.save_as(tmp_path / "table.csv")
    assert waiting.value.suggested_filename == "kernel-breakdown.csv"
    with (tmp_path / "table.csv").open(newline="") as file:
        assert len([*csv.DictReader(file)]) == rows
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.panel().get_by_role("button", name="Copy").click()
    expect(page.panel().get_by_text(f"Copied {rows} rows")).to_be_visible()
    copied = page.page.evaluate("navigator.clipboard.readText()")
    assert len(copied.splitlines()) == rows + 1
    assert copied.startswith("name\tsum_ns\t")
