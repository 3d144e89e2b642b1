"""The diagnosis of the sample job as a user meets it: read, opened, shown in all panels."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_panels import cells, wait_for_charts

STEPS = ("Previous", "Next")


def board(lab: Lab, folder: str, *, width: int = 1100) -> LabPage:
    page = lab.open(cells(folder, "board = Dashboard(job)\nboard"), width=width, height=1400)
    expect(page.page.locator(".hta-tab-page .main-svg").first).to_be_visible()
    return page


def test_show_selects_the_ranks_and_steps_of_a_finding_in_all_panels(lab: Lab, job8: str):
    page = board(lab, job8)
    found = page.python("[each.to_dict() for each in board.findings]")
    place = next(place for place, each in enumerate(found) if each["ranks"] == [7])
    rows = page.panel().locator(".hta-findings > ol > li")
    row = rows.nth(place)
    words, _, cost = found[place]["sentence"].rpartition(": ")
    expect(row).to_contain_text(words)
    expect(row.locator(".hta-price b")).to_have_text(cost.partition(" of ")[0])
    show = row.get_by_role("button", name="Show")
    expect(show).to_have_attribute("aria-pressed", "false")
    page.screenshot("diagnosis")
    show.click()
    page.wait_for("board.selection.finding", place)
    assert page.python("board.selection.ranks") == [7]
    shown = f"board.findings.proof(board.findings[{place}]).shown_ns(0)"
    assert page.python("list(board.selection.window_ns)") == page.python(f"list({shown})")
    assert page.python("list(board.selection.steps)") == []
    page.wait_for("{tuple(panel.ranks) for panel in board.panels.values()} == {(7,)}", True)
    expect(show).to_have_attribute("aria-pressed", "true")
    expect(page.panel().get_by_role("button", name="Clear rank 7")).to_be_visible()
    expect(page.panel().get_by_role("button", name=f"Clear finding {place + 1}")).to_be_visible()
    expect(row).to_contain_text(words)
    expect(page.panel().locator(".hta-band-budget .hta-aside")).to_contain_text("rank 7")
    assert page.python("board.tab") == "ranks"
    page.screenshot("diagnosis shown")
    show.press("Enter")
    page.wait_for("board.selection.finding", None)
    page.wait_for("{tuple(panel.ranks) for panel in board.panels.values()} == {()}", True)


def test_show_steps_through_all_windows_in_which_a_finding_is_seen(lab: Lab, job8: str):
    page = board(lab, job8)
    causes = page.python("[each.cause for each in board.findings]")
    place = causes.index("input_starvation")
    page.execute(f"proof = board.findings.proof(board.findings[{place}])")
    count = page.python("len(proof.windows)")
    assert count > 1
    windows = page.python(f"[list(proof.shown_ns(place)) for place in range({count})]")
    words = page.python(f"[proof.words(place) for place in range({count})]")
    row = page.panel().locator(".hta-findings > ol > li").nth(place)
    step = {name: row.get_by_role("button", name=f"{name} occurrence") for name in STEPS}
    said = row.get_by_role("status")
    expect(step["Next"]).to_be_hidden()
    row.get_by_role("button", name="Show").click()
    for name, shown in (("", 0), ("Next", 1), ("Previous", 0), ("Previous", count - 1)):
        if name:
            step[name].click()
        page.wait_for("list(board.selection.window_ns or ())", windows[shown])
        expect(said).to_have_text(f"window {shown + 1} of {count} · {words[shown]}")
        page.screenshot(f"diagnosis occurrence {shown + 1}")
    assert page.python("board.selection.finding") == place
    row.get_by_role("button", name="Show").click()
    page.wait_for("board.selection.window_ns", None)
    expect(said).to_be_hidden()


def test_a_selection_in_python_marks_the_row(lab: Lab, job8: str):
    page = board(lab, job8)
    page.execute(
        "selection = board.selection\n"
        "row = board._bands['findings'][0]\n"
        "selection.set_state({**row['show'], **row['occurrences'][0]['fields']})"
    )
    expect(page.panel().locator(".hta-selected")).to_have_count(1)
    page.execute("selection.ranks = [1]")
    expect(page.panel().locator(".hta-selected")).to_have_count(0)


def test_a_row_of_cells_selects_its_rank(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = DiagnosisPanel(job)\npanel"), width=1100, height=1300)
    wait_for_charts(page)
    cells_of_ranks = page.panel().locator(".hta-figure").nth(1)
    cells_of_ranks.focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    page.wait_for("panel.ranks", [1])
    expect(page.panel().locator(".hta-figure").first).to_contain_text("of rank 1")


def test_its_controls_are_reached_in_order_with_the_keyboard(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = DiagnosisPanel(job)\npanel"), width=1100, height=1300)
    wait_for_charts(page)
    page.panel().locator("summary").first.focus()
    reached = []
    for _ in range(5):
        reached.append(page.page.evaluate("document.activeElement.textContent"))
        page.page.keyboard.press("Tab")
    assert reached[0] == "Alternatives"
    assert reached[reached.index("Show") + 1] == "Copy"
    count = page.page.locator(".jp-Cell").count()
    page.panel().get_by_role("button", name="Show").first.focus()
    page.page.keyboard.press("b")
    page.page.keyboard.press("Space")
    page.wait_for("panel.selection.finding", 0)
    assert page.page.locator(".jp-Cell").count() == count


def test_nothing_sticks_out_at_any_width(lab: Lab, job8: str):
    page = lab.open(cells(job8, "DiagnosisPanel(job)"), width=1600, height=1300)
    wait_for_charts(page)
    for summary in page.panel().locator("summary:visible").all():
        summary.click()
    for width in (1600, 1100, 700, 500):
        page.page.set_viewport_size({"width": width, "height": 1300})
        page.page.wait_for_timeout(700)
        page.screenshot(f"diagnosis {width}")
        right = page.panel().bounding_box()
        for part in (".hta-findings li", ".hta-show", ".hta-legend li", ".hta-words"):
            for each in page.panel().locator(part).all():
                if box := each.bounding_box():
                    assert box["x"] + box["width"] <= right["x"] + right["width"] + 1, (part, width)
                    assert box["x"] >= right["x"] - 1, (part, width)
