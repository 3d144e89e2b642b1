"""*Show* of every finding of all traces: selected, counted, lit, in the panel that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_dashboard import MARGINS, dashboard
from tests.browser.test_timeline import picture, settled
from tests.spans import merged

TRACES = (
    "kineto/b200_eager",
    "kineto/compare_control",
    "kineto/event_sync_multi_stream",
    "kineto/mi210_gpu_only",
    "kineto/mi300_timesformer",
    "kineto/ns_resolution",
    "kineto/sglang_decode_graph",
    "more/dlrm_8rank",
    "nsys/h100_2gpu_1s.sqlite",
)
"""With all causes that occur."""

ALIKE = (
    "kineto/alexnet",
    "kineto/ddp_rank1of2",
    "kineto/h100_bert",
    "kineto/mi250_toy",
    "kineto/triton",
)
"""With causes that others have as well."""

HIGHEST_PX = 1_650
"""Of a page while a finding is shown, with the kernel, the what-if and the panel of it."""

LIT = """canvas => {
    const ink = canvas.ownerDocument.createElement('canvas').getContext('2d');
    const style = getComputedStyle(canvas.closest('.hta-panel'));
    for (const name of ['--hta-page', '--hta-fg']) {
        ink.fillStyle = style.getPropertyValue(name);
        ink.fillRect(0, 0, 1, 1);
    }
    const wanted = ink.getImageData(0, 0, 1, 1).data;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4)
        if ([0, 1, 2].every(each => data[at + each] === wanted[each])) count += 1;
    return count;
}"""
"""Number of pixels of the timeline that have the colour of what is lit, and of some text."""

LEAST_LIT = 12
"""Pixels of the shortest bars: 4 px high, and as long as anybody sees."""

MOST_SENT = 6_000
"""Intervals in the window that a page is sent one by one."""

Interval = tuple[int, int, int]
"""Rank, start and end (ns)."""


def test_show_is_the_proof_on_the_sample(lab: Lab, job8: str):
    check_findings(opened(lab, job8))


def test_the_timeline_comes_into_sight(lab: Lab, job8: str):
    """It was below the fold, so that a click seemed to change some chips only."""
    page = opened(lab, job8, height=700)
    row = dashboard(page).locator(".hta-findings li").first
    timeline = dashboard(page).locator(".hta-band-timeline")
    row.locator(".hta-show").click()
    expect(row.locator(".hta-show")).to_be_in_viewport()
    expect(timeline).to_be_in_viewport(ratio=0.5)


def test_the_timeline_goes_back_with_the_second_press(lab: Lab, real_traces: Path):
    """It stayed at the window of the finding, beside *Selected: everything*."""
    page = opened(lab, str(real_traces / "more/dlrm_8rank"))
    row = dashboard(page).locator(".hta-findings li").nth(1)
    canvas = dashboard(page).locator(".hta-band-timeline canvas")
    (before,) = settled(page, canvas)
    row.locator(".hta-show").click()
    page.wait_until(lambda: picture(canvas) != before)
    row.locator(".hta-show").click()
    page.wait_until(lambda: picture(canvas) == before)


@pytest.mark.parametrize(
    "trace", [*TRACES, *(pytest.param(trace, marks=pytest.mark.long) for trace in ALIKE)]
)
def test_show_is_the_proof(lab: Lab, real_traces: Path, trace: str):
    page = opened(lab, str(real_traces / trace))
    check_findings(page)
    assert page.dialogs == []


def opened(lab: Lab, source: str, height: int = 1600) -> LabPage:
    cell = f"from hta_widgets import Dashboard\ndash = Dashboard({source!r})\ndash"
    page = lab.open([cell], width=1100 + MARGINS, height=height)
    expect(dashboard(page).locator(".hta-findings li").first).to_be_visible()
    return page


def check_findings(page: LabPage) -> None:
    rows = dashboard(page).locator(".hta-findings li")
    more = dashboard(page).locator(".hta-findings > details > summary:visible")
    for each in more.all():
        each.click()
    count = page.python("len(dash.findings)")
    assert count
    for finding in range(count):
        check_finding(page, rows.nth(finding), finding)


def check_finding(page: LabPage, row: Locator, finding: int) -> None:
    """Press *Show*, and compare what page and Python say with the intervals of the cause."""
    proof = f"dash.findings.proof(dash.findings[{finding}])"
    times = "[['rank', 'start_ns', 'end_ns']].to_numpy().tolist()"
    intervals = [tuple(each) for each in page.python(f"{proof}.intervals{times}")]
    windows = page.python(f"{proof}.windows[['start_ns', 'end_ns']].to_numpy().tolist()")
    bounds = page.python(f"list({proof}.bounds_ns)")
    show = row.get_by_role("button", name="Show")
    show.click()
    page.wait_for("dash.selection.finding", finding)
    expect(show).to_have_attribute("aria-pressed", "true")
    said = row.get_by_role("status")
    shares = [check_window(page, said, intervals, windows[0], bounds)]
    assert shares[0] >= 20 or "and spread over the time" in said.inner_text()
    check_panel(page, page.python(f"dash.findings[{finding}].links[0].panel"))
    check_lit(page, intervals)
    folded = dashboard(page).locator(".hta-findings > details ol").first
    more = folded.bounding_box()["height"] if folded.is_visible() else 0
    assert dashboard(page).bounding_box()["height"] <= HIGHEST_PX + more
    page.screenshot(f"show {page.python('dash.job.name')} {finding}")
    for place in range(1, min(len(windows), 3)):
        row.get_by_role("button", name="Next occurrence").click()
        expect(said).to_contain_text(f"window {place + 1} of {len(windows)} ·")
        shares.append(check_window(page, said, intervals, windows[place], bounds))
    assert sum(shares) <= 100.5
    assert shares[1:] == sorted(shares[1:], reverse=True)
    page.execute("dash.selection.set()")
    expect(show).to_have_attribute("aria-pressed", "false")


def check_window(
    page: LabPage,
    said: Locator,
    intervals: list[Interval],
    window: tuple[int, int],
    bounds: tuple[int, int],
) -> float:
    """Compare what is said of what is shown with sums; the share (%) of the window inside.

    Shown is a margin more on both sides, with which windows overlap, inside the recording.
    """
    expect(said).to_contain_text("this window holds")
    margin = (window[1] - window[0]) // 10
    shown = max(window[0] - margin, bounds[0]), min(window[1] + margin, bounds[1])
    page.wait_for("list(dash.selection.window_ns)", [*shown])
    chips = dashboard(page).locator(".hta-chips")
    expect(chips).to_contain_text(page.python("dash.selection.time_in_words(('window_ns',))"))
    inside = [each for each in intervals if each[1] < shown[1] and each[2] > shown[0]]
    whole = sum(last - first for _, first, last in intervals)
    held = sum(held_in(each, *shown) for each in intervals)
    ranks = sorted({rank for rank, _, _ in inside})
    numbers = page.python(f"__import__('hta_widgets').quantities.number_ranges({ranks})")
    where = f"on {'rank' if len(ranks) == 1 else 'ranks'} {numbers} · this window holds"
    text = said.inner_text().replace("\u00a0", " ")
    assert f" · {len(inside):,} of {len(intervals):,} interval" in text
    assert where in text
    share = re.search(r"this window holds (?:under )?([\d.]+) %", text)
    assert share is not None, text
    if "holds under" in text:
        assert 100 * held / whole < float(share[1])
    else:
        assert float(share[1]) == pytest.approx(100 * held / whole, rel=0.01)
    return 100 * sum(held_in(each, *window) for each in intervals) / whole


def held_in(interval: Interval, start: int, end: int) -> int:
    """How much of an interval lies in a window (ns)."""
    return max(min(interval[2], end) - max(interval[1], start), 0)


def check_panel(page: LabPage, panel: str) -> None:
    """Check that the panel of the finding is the one that is open, and has drawn something."""
    page.wait_for("dash.panel", panel)
    tab = page.python("[each['label'] for each in dash._spec['tabs'] if each['name'] == dash.tab]")
    selected = dashboard(page).get_by_role("tab", selected=True)
    expect(selected).to_have_text(tab[0])
    drawn = dashboard(page).locator(
        ".hta-tab-page :is(.main-svg, .hta-table tbody tr, canvas):visible"
    )
    expect(drawn.first).to_be_visible()


def check_lit(page: LabPage, intervals: list[Interval]) -> None:
    """Check that the timeline is sent exactly the intervals, and draws them: without, less is lit.

    Of more intervals than pixels, gaps between them are closed outside of the window.
    """
    bars = dict(page.python("dash.panels['timeline']._lit"))
    start, end = page.python("list(dash.selection.window_ns)")
    assert set(bars) == {rank for rank, _, _ in intervals}
    for rank, times in bars.items():
        lit = union(zip(times[::2], times[1::2], strict=True), start, end)
        own = union([each[1:] for each in intervals if each[0] == rank], start, end)
        assert lit == own or len(own) * len(bars) > MOST_SENT
    page.page.wait_for_timeout(300)
    canvas = dashboard(page).locator(".hta-band-timeline canvas")
    with_bars = canvas.evaluate(LIT)
    page.execute("dash.panels['timeline']._lit = []")
    page.wait_until(lambda: canvas.evaluate(LIT) <= with_bars - LEAST_LIT)


def union(intervals: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """What some intervals cover of a window."""
    inside = ((max(a, start), min(b, end)) for a, b in intervals)
    return merged((a, b) for a, b in inside if a < b)
