"""The dashboard as a user meets it: read, clicked, driven with keys, at every width."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_accessibility import check_in_both_themes
from tests.browser.test_panels import cells

MARGINS = 130
"""Width of a JupyterLab page around a cell's output."""

TAB_STOPS = """root => {
    const all = root.querySelectorAll('button, input, select, summary, a, [tabindex="0"]');
    const reached = each => each.tabIndex >= 0 && each.checkVisibility() && !each.disabled
        && (each.type !== 'radio' || each.checked)
        && !each.closest('[popover]:not(:popover-open)');
    return [...all].filter(reached).length;
}"""

TABS_END = """root => root.querySelector('.hta-tab-list').getBoundingClientRect().bottom
    - root.getBoundingClientRect().top"""

STICKING_OUT = """root => {
    const { right } = root.getBoundingClientRect();
    const scrolls = each => each.parentElement.closest('.hta-table') !== null;
    const out = each => each.checkVisibility() && !scrolls(each)
        && each.getBoundingClientRect().right > right + 1;
    return [...root.querySelectorAll('*')].filter(out).map(each => each.className);
}"""


def board(lab: Lab, folder: str, *, width: int = 1100, height: int = 1400) -> LabPage:
    page = lab.open(
        cells(folder, "dash = Dashboard(job)\ndash"), width=width + MARGINS, height=height
    )
    expect(dashboard(page).locator(".hta-findings li").first).to_be_visible()
    expect(dashboard(page).locator(".hta-tab-page .main-svg").first).to_be_visible()
    return page


def dashboard(page: LabPage) -> Locator:
    return page.page.locator(".hta-dashboard")


def test_its_bands_say_what_python_has(lab: Lab, job4: str):
    page = board(lab, job4)
    shown = dashboard(page)
    expect(shown.locator(".hta-board-header")).to_contain_text("steps 10-13")
    for place, words in enumerate(page.python("[each.action for each in dash.findings]")):
        row = shown.locator(".hta-findings li").nth(place)
        expect(row.locator(".hta-advice").first).to_contain_text(words)
    parts = page.python("dash._bands['budget']['parts']")
    buttons = shown.locator(".hta-budget button")
    expect(buttons).to_have_count(len(parts))
    widths = [button.bounding_box()["width"] for button in buttons.all()]
    for part, width in zip(parts, widths, strict=True):
        assert abs(width - part["share"] * sum(widths)) < 6, part["name"]
    listed = shown.locator(".hta-legend-line").inner_text()  # what has no room inside
    for part, button in zip(parts, buttons.all(), strict=True):
        whole = f"{part['label']} {part['text']}"
        if part["text"] and part["share"]:
            assert whole in listed or button.inner_text() == whole
    expect(shown.locator(".hta-band-timeline canvas")).to_be_visible()
    expect(shown.locator(".hta-footer")).to_contain_text(
        f"dash.events({page.python('len(dash.events)'):,} selected)"
    )
    page.screenshot("dashboard 1100")
    assert shown.evaluate(TABS_END) <= 900
    assert shown.evaluate(TAB_STOPS) <= 46


def test_a_part_of_the_budget_opens_its_tab_in_sight(lab: Lab, job4: str):
    page = board(lab, job4, height=700)
    tabs = dashboard(page).get_by_role("tablist")
    assert tabs.bounding_box()["y"] > 700
    part = dashboard(page).locator(".hta-budget button[data-label='compute']")
    part.click()
    page.wait_for("dash.tab", "kernels")
    page.wait_until(lambda: 0 < tabs.bounding_box()["y"] < 500)
    expect(tabs.get_by_role("tab", name="Kernels")).to_have_attribute("aria-selected", "true")


def test_the_length_of_a_step_is_in_sight_however_much_is_said(lab: Lab, real_traces: Path):
    page = board(lab, str(real_traces / "kineto" / "sglang_decode_graph"), width=800)
    facts = dashboard(page).locator(".hta-facts")
    said = page.python("dash._bands['facts']")
    expect(facts).to_have_text(" · ".join(said))
    length = facts.locator("b").bounding_box()
    around = facts.bounding_box()
    assert length["x"] + length["width"] <= around["x"] + around["width"] + 1


def test_tabs_are_opened_and_only_then_computed(lab: Lab, job4: str):
    page = board(lab, job4)
    assert page.python("dash.panels['kernel_breakdown']._computed is None")
    tabs = dashboard(page).get_by_role("tablist")
    tabs.get_by_role("tab", name="Kernels").click()
    page.wait_for("dash.tab", "kernels")
    views = dashboard(page).get_by_role("radiogroup", name="Views of this tab")
    expect(views.get_by_role("radio", name="Kernel breakdown")).to_be_checked()
    expect(dashboard(page).locator(".hta-tab-page .main-svg").first).to_be_visible()
    assert page.python("dash.panels['duration_tails']._computed is None")
    page.wait_for("dash.panels['idle_owners']._visible", expected=False)
    page.page.keyboard.press("Home")
    page.wait_for("dash.tab", "ranks")
    page.execute("dash.tab = 'steps'")
    expect(tabs.get_by_role("tab", name="Steps")).to_have_attribute("aria-selected", "true")
    assert dashboard(page).locator(".hta-tab-page .hta-picker:visible").count() == 0


def test_it_is_driven_with_the_keyboard(lab: Lab, job4: str):
    page = board(lab, job4)
    keys = page.page.keyboard
    dashboard(page).focus()
    keys.press("/")
    field = dashboard(page).get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    field.fill("rank 3")
    expect(page.page.get_by_role("option", name="rank 3").first).to_be_visible()
    keys.press("Enter")
    page.wait_for("dash.selection.ranks", [3])
    expect(dashboard(page).locator(".hta-band-budget .hta-aside")).to_contain_text("rank 3")
    expect(dashboard(page).locator(".hta-ghost")).to_be_visible()
    page.execute("dash.selection.steps = (11, 13)")
    expect(dashboard(page).locator(".hta-chip")).to_have_text(["rank 3 ×", "steps 11, 13 ×"])
    dashboard(page).focus()
    keys.press("Escape")
    page.wait_for("list(dash.selection.steps)", [])
    keys.press("Control+z")
    page.wait_for("list(dash.selection.steps)", [11, 13])
    keys.press("Control+z")
    keys.press("Control+z")
    page.wait_for("dash.selection.ranks", [])
    expect(dashboard(page).locator(".hta-chips")).to_have_text("Selected:everything")
    assert page.page.locator(".jp-Cell").count() == 2


def test_chips_and_the_budget_select(lab: Lab, job4: str):
    page = board(lab, job4)
    dashboard(page).locator(".hta-budget button").nth(2).click()
    wanted = page.python("dash._bands['budget']['parts'][2]['show']")
    page.wait_for("dash.selection.finding", wanted["finding"])
    assert page.python("dash.selection.ranks") == wanted["ranks"]
    dashboard(page).get_by_role("button", name="Clear rank 3").click()
    page.wait_for("dash.selection.ranks", [])
    dashboard(page).get_by_role("button", name="Clear the selection").click()
    page.wait_for("dash.selection.finding", None)


def test_a_click_is_seen_in_the_traits_that_hosts_read(lab: Lab, job4: str):
    page = board(lab, job4)
    seen = "{k: v for k, v in dash.get_state(['verdict', 'selected']).items()}"
    assert page.python(seen)["selected"] == {}
    assert page.python("all(f'{e.cause}, ' in dash.verdict for e in dash.findings)")
    dashboard(page).locator(".hta-budget button").nth(2).click()
    wanted = page.python("dash._bands['budget']['parts'][2]['show']")
    page.wait_for("dash.selected.get('finding')", wanted["finding"])
    assert page.python("dash.selected['ranks']") == wanted["ranks"]
    shown = "dash.panels[dash.panel]"
    page.wait_for(f"{shown}.selected.get('ranks')", wanted["ranks"])
    assert page.python(f"{shown}.verdict.startswith({shown}.result.finding)")
    page.execute("told = []; dash.observe(lambda c: told.append(c['new']), 'selected')")
    dashboard(page).get_by_role("button", name="Clear the selection").click()
    page.wait_for("told", [{}])


def test_details_lead_through_the_events_of_a_kernel(lab: Lab, job4: str):
    page = board(lab, job4)
    page.execute("dash.selection.set(kernel=dash.events['name'].mode()[0], ranks=[1, 2])")
    drawer = dashboard(page).get_by_role("complementary", name="Details")
    name = page.python("dash.selection.kernel")
    expect(drawer.locator(".hta-drawer-name")).to_have_attribute("title", name)
    expect(drawer.locator(".hta-rank-bars li")).to_have_count(2)
    drawer.get_by_role("button", name="Next event").click()
    drawer.get_by_role("button", name="Next event").click()
    page.wait_until(lambda: drawer.locator(".hta-turns").inner_text().split()[1] == "2")
    starts = page.python("sorted(set(dash.panels['timeline'].selection.window_ns))")
    assert starts[0] < page.python("int(dash.events['start_ns'].iloc[0])") < starts[1]
    page.screenshot("dashboard details")


def test_what_the_timeline_says_leaves_its_heading_free(lab: Lab, job4: str):
    shown = dashboard(board(lab, job4)).locator(".hta-band-timeline")
    shown.get_by_role("button", name="Perfetto: this window", exact=True).click()
    status = shown.get_by_role("status")
    expect(status).to_contain_text("Download 4 files")
    first = status.evaluate("""each => {
        const range = document.createRange();
        range.selectNodeContents(each);
        return Math.min(...[...range.getClientRects()].map(({ left }) => left));
    }""")
    heading = shown.get_by_role("heading", name="Timeline").bounding_box()
    assert heading["x"] + heading["width"] < first


def test_nothing_sticks_out_at_any_width(lab: Lab, job4: str):
    page = board(lab, job4, width=2560)
    page.execute("dash.selection.set(kernel=dash.events['name'][0], ranks=[3], finding=0)")
    expect(dashboard(page).locator(".hta-drawer")).to_be_visible()
    tabs = dashboard(page).get_by_role("tab")
    for width in (2560, 1600, 1100, 700, 620, 500):
        page.page.set_viewport_size({"width": width + MARGINS, "height": 1400})
        page.wait_until(lambda: dashboard(page).evaluate(STICKING_OUT) == [])
        page.screenshot(f"dashboard {width}")
        assert all(tab.is_visible() for tab in tabs.all())


def test_tables_behind_a_finding_scroll_beside_its_button(lab: Lab, real_traces: Path):
    """They were as wide as their columns, and pushed the button out of the page."""
    page = board(lab, str(real_traces / "kineto" / "ddp_rank1of2"), width=930)
    row = dashboard(page).locator(".hta-findings li").first
    row.locator(".hta-behind summary").first.click()
    expect(row.locator(".hta-behind .hta-table").first).to_be_visible()
    expect(row.get_by_role("button", name="more columns")).to_be_visible()
    assert dashboard(page).evaluate(STICKING_OUT) == []
    expect(row.get_by_role("button", name="Show")).to_be_in_viewport()


def test_axe(lab: Lab, job4: str):
    page = board(lab, job4)
    page.execute("dash.selection.set(kernel=dash.events['name'][0], ranks=[3], finding=1)")
    expect(dashboard(page).locator(".hta-drawer")).to_be_visible()
    for summary in dashboard(page).locator(".hta-findings summary:visible").all():
        summary.click()
    check_in_both_themes(page, "dashboard")


COUNT = """
session = get_ipython().kernel.session
send, sent = session.send, []

def counted(stream, kind, content=None, *rest, buffers=None, **more):
    said = kind if content is None else content
    sent.append(len(str(said)) + sum(memoryview(each).nbytes for each in buffers or []))
    return send(stream, kind, content, *rest, buffers=buffers, **more)

session.send = counted
"""
"""Adds up what the kernel sends to the page."""


def test_it_costs_a_page_and_a_notebook_less_than_a_megabyte(lab: Lab, job8: str):
    page = lab.open([COUNT, *cells(job8, "dash = Dashboard(job)\ndash")], width=1100 + MARGINS)
    expect(dashboard(page).locator(".hta-tab-page .main-svg").first).to_be_visible()
    expect(dashboard(page).locator(".hta-band-timeline canvas")).to_be_visible()
    page.wait_for_kernel()
    assert 400_000 < page.python("sum(sent)") < 900_000  # with the charts' code, 460 kB
    page.execute("session.send = send")
    assert page.save() < 1_000_000
