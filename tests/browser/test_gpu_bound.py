"""What to try where the GPU is the bottleneck: said, copied and shown on real traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.test_accessibility import IS_DRAWN
from tests.browser.test_dashboard import MARGINS, dashboard
from tests.browser.test_show import check_lit, check_window

TRACES = (
    ("h100_qwen", "Light"),
    ("torch_compile", "Dark"),
    pytest.param("vllm_piecewise", "Light", marks=pytest.mark.long),
    pytest.param("sglang_decode_graph", "Dark", marks=pytest.mark.long),
)

FIRST_PX = 920
"""Where the tabs begin at most: what to try is on the first screen."""

IN_FULL = "parts => parts.every(each => each.scrollWidth <= each.clientWidth + 1)"
"""Whether no column of a table and no word of code is cut; widths are rounded."""


@pytest.mark.parametrize(("trace", "theme"), TRACES)
def test_each_line_says_what_python_has_and_shows_it(
    lab: Lab, real_traces: Path, trace: str, theme: str
):
    source = str(real_traces / "kineto" / trace)
    cell = f"from hta_widgets import Dashboard\ndash = Dashboard({source!r})\ndash"
    width = 1100 if theme == "Light" else 1480
    page = lab.open([cell], width=width + MARGINS, height=1600)
    page.command("apputils:change-theme", {"theme": f"JupyterLab {theme}"})
    shown = dashboard(page)
    band = shown.locator(".hta-band-verdict section")
    expect(band.get_by_text("What to try: the GPU is the bottleneck")).to_be_visible()
    rows = band.locator(".hta-findings li")
    lines = page.python(
        "[(e.words.sentence(''), e.action, e.advice[0].code, e.links[0].panel, e.links[0].kernel)"
        " for e in dash.findings.to_try]"
    )
    assert lines
    expect(rows).to_have_count(len(lines))
    page.page.wait_for_function(IS_DRAWN)
    code = band.locator(".hta-findings > ol .hta-line-code > code > span")
    assert code.or_(shown.locator(".hta-band-largest .hta-table")).evaluate_all(IN_FULL)
    page.screenshot(f"to try {trace} {theme}")
    top = shown.bounding_box()["y"]
    assert shown.locator(".hta-tab-list").bounding_box()["y"] - top <= FIRST_PX
    for place, (sentence, action, code, panel, kernel) in enumerate(lines[:3]):
        row = rows.nth(place)
        expect(row.locator(".hta-words > p")).to_have_text(sentence)
        expect(row.locator(".hta-advice").first).to_contain_text(action)
        if code:
            expect(row.locator(".hta-advice code").first).to_have_attribute("title", code)
        row.get_by_role("button", name="Show").click()
        page.wait_for("dash.panel", panel)
        assert page.python("dash.selection.kernel") == kernel
        page.wait_for("dash.selection.finding", page.python("len(dash.findings)") + place)
        pressed = [each.locator(".hta-show") for each in rows.all()]
        states = [each.get_attribute("aria-pressed") for each in pressed]
        assert [at for at, state in enumerate(states) if state == "true"] == [place]
        proof = f"dash.findings.proof(dash.findings.to_try[{place}])"
        times = "[['rank', 'start_ns', 'end_ns']].to_numpy().tolist()"
        intervals = [tuple(each) for each in page.python(f"{proof}.intervals{times}")]
        windows = page.python(f"{proof}.windows[['start_ns', 'end_ns']].to_numpy().tolist()")
        bounds = page.python(f"list({proof}.bounds_ns)")
        check_window(page, row.get_by_role("status"), intervals, windows[0], bounds)
        check_lit(page, intervals)
        expect(row.get_by_role("button", name="Show")).to_have_attribute("aria-pressed", "true")
        if kernel:
            expect(shown.locator(".hta-drawer")).to_be_visible()
        page.execute("dash.selection.set()")
    page.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    assert page.dialogs == []
