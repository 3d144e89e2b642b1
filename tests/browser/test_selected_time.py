"""Steps and a window selected in Python, and all of the time again with the keyboard."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab
from tests.browser.test_panels import cells, wait_for_charts


def test_panels_follow_the_selected_time_and_lead_back(lab: Lab, job8: str):
    page = lab.open(
        cells(
            job8, "first = TemporalBreakdownPanel(job)\nfirst", "second = OverlapPanel(job)\nsecond"
        )
    )
    wait_for_charts(page, 2)
    names = ["first", "second"]
    finding = [page.panel(number).locator(".hta-finding") for number in range(2)]
    whole = [each.inner_text() for each in finding]
    page.execute("first.selection.steps = job.rank(0).steps.distinct[:1]")
    step = page.python("first.selection.steps[0]")
    for number, name in enumerate(names):
        panel = page.panel(number)
        expect(panel.get_by_role("button", name=f"step {step}: show all")).to_be_visible()
        expect(finding[number]).not_to_have_text(whole[number])
        assert finding[number].inner_text() == page.python(f"{name}.result.finding")
    page.execute("first.selection.window_ns = (0, 10**12)")
    expect(page.panel().get_by_role("button", name="show all of the time")).to_contain_text("s ×")
    button = page.panel(1).get_by_role("button", name="show all of the time")
    button.focus()
    button.press("Enter")
    page.wait_for("(first.selection.steps, first.selection.window_ns)", [[], None])
    for number in range(2):
        expect(finding[number]).to_have_text(whole[number])
        expect(page.panel(number).locator(".hta-time")).to_be_hidden()
    expect(page.panel(1).locator(".hta-title")).to_be_focused()
