"""The tab Compare: a second job is picked in the page, and what changed is opened there."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from hta_widgets import open_trace
from hta_widgets.diagnosis.change.baseline import write_baseline
from hta_widgets.diagnosis.change.summary import summary
from hta_widgets.quantities import duration
from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_accessibility import AXE, RUN_AXE
from tests.browser.test_dashboard import MARGINS, STICKING_OUT, dashboard
from tests.browser.test_panels import cells
from tests.browser.test_timeline import NOT_EMPTY, picture, settled
from tests.simulator import write_job

DROP = """
([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  const target = document.querySelector(".hta-second");
  for (const type of ["dragover", "drop"]) {
    const given = { dataTransfer: data, bubbles: true, cancelable: true };
    target.dispatchEvent(new DragEvent(type, given));
  }
}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run before a change, one after it, and a baseline."""
    folder = tmp_path_factory.mktemp("runs")
    write_job(folder / "before", "input_starvation", healthy=True, ranks=2, steps=7)
    write_job(folder / "after", "input_starvation", ranks=2, steps=7, seed=12)
    before = open_trace(folder / "before", progress=False)
    write_baseline(summary(before), folder / "nightly.arrow")
    return folder


def opened(lab: Lab, path: Path, width: int = 1230) -> LabPage:
    page = lab.open(cells(str(path), "dash = Dashboard(job)\ndash"), width=width)
    dashboard(page).get_by_role("tab", name="Compare").click()
    return page


def picker(page: LabPage) -> Locator:
    return dashboard(page).locator(".hta-second")


def verdict(page: LabPage) -> Locator:
    return dashboard(page).locator(".hta-tab-page .hta-finding")


def test_a_run_beside_is_opened_by_a_click(lab: Lab, runs: Path):
    page = opened(lab, runs / "before")
    expect(picker(page).locator(".hta-offers button")).to_have_count(2)
    page.screenshot("compare, pick")
    assert page.python("dash.compare") is None
    picker(page).get_by_role("button", name="after").click()
    expect(verdict(page)).to_contain_text("Regression: the mean step of 2 ranks takes")
    expect(verdict(page)).to_contain_text("input_starvation: new")
    expect(dashboard(page).locator(".hta-tab-page .main-svg").first).to_be_visible()
    page.screenshot("compare, verdict")
    dashboard(page).get_by_role("radio", name="Compare with…").check()
    expect(picker(page)).to_contain_text("Compared with after")
    picker(page).get_by_role("button", name="Stop comparing").click()
    expect(picker(page)).not_to_contain_text("Compared with after")
    assert page.python("dash.compare") is None


def test_a_path_is_typed_and_one_that_is_not_there_is_said(lab: Lab, runs: Path):
    page = opened(lab, runs / "before")
    field = picker(page).get_by_label("Path or URL")
    field.fill(str(runs / "nowhere"))
    field.press("Enter")
    expect(picker(page).get_by_role("alert")).to_contain_text("nowhere")
    page.screenshot("compare, a path that is not there")
    field.fill(str(runs / "after"))
    picker(page).get_by_role("button", name="Open").click()
    expect(verdict(page)).to_contain_text("Regression")


def test_a_baseline_is_dropped(lab: Lab, runs: Path):
    page = opened(lab, runs / "after")
    page.page.evaluate(DROP, ["notes.txt", [1, 2, 3]])
    expect(picker(page).get_by_role("alert")).to_contain_text("notes.txt is not a baseline")
    page.page.evaluate(DROP, ["broken.arrow", [1, 2, 3]])
    expect(picker(page).get_by_role("alert")).to_contain_text("broken.arrow is no baseline")
    page.page.evaluate(DROP, ["nightly.arrow", [*(runs / "nightly.arrow").read_bytes()]])
    expect(verdict(page)).to_contain_text("Regression: the mean step of 2 ranks takes")
    page.screenshot("compare, a baseline")


def test_a_row_opens_its_next_level_and_selects(lab: Lab, runs: Path):
    page = opened(lab, runs / "before")
    picker(page).get_by_role("button", name="nightly.arrow").click()
    expect(verdict(page)).to_contain_text("No difference")
    page.execute(f"dash.compare = {str(runs / 'after')!r}")
    expect(verdict(page)).to_contain_text("Regression")
    page.execute("panel = dash.panels['change']")
    chart = dashboard(page).locator(".hta-figure").nth(1)
    rows = chart.locator(".trace.bars").nth(0).locator(".point path")
    names = chart.locator(".ytick")

    def click(row: int) -> None:
        """Click a row of a chart that shows what is open, and wait until it shows what is then."""
        before = page.python("panel.opened")
        rows.nth(row).click(force=True)
        page.wait_until(lambda: page.python("panel.opened") != before)
        is_drawn()

    def is_drawn() -> None:
        shown = "[[*each.layout.yaxis.ticktext] for each in panel.figures.values()][1]"
        page.wait_until(lambda: names.all_text_contents() == page.python(shown))

    is_drawn()
    page.execute("panel.opened = ('compute',)")
    is_drawn()
    while not page.python("bool(dash.selection.operators or dash.selection.kernel)"):
        first_below = 1 + names.filter(has_text="‹").count()  # behind the row of all of it
        click(first_below)
    assert page.python("len(panel.opened)") > 2
    page.screenshot("compare, opened")
    click(0)
    assert page.python("(panel.opened, dash.selection.operators, dash.selection.kernel)") == [
        [],
        [],
        "",
    ]


def test_the_picker_fits_and_can_be_used_by_all(lab: Lab, runs: Path):
    page = opened(lab, runs / "before")
    expect(picker(page).locator(".hta-offers button")).to_have_count(2)
    page.page.add_script_tag(path=str(AXE))
    for width in (500, 1100, 1480):
        page.page.set_viewport_size({"width": width + MARGINS, "height": 900})
        page.wait_until(lambda: dashboard(page).evaluate(STICKING_OUT) == [])
        page.screenshot(f"compare, pick {width}")
        assert page.page.evaluate(RUN_AXE) == []


def stacked(page: LabPage) -> Locator:
    return dashboard(page).locator(".hta-stacked")


def canvases(page: LabPage) -> list[Locator]:
    """Those of both steps, with events on them."""
    stacked(page).scroll_into_view_if_needed()
    found = stacked(page).locator(".hta-lanes canvas")
    expect(found).to_have_count(2)
    both = [found.nth(0), found.nth(1)]
    for each in both:
        expect(each).to_be_visible()
        page.wait_until(lambda each=each: each.bounding_box()["height"] > 100)  # with its streams
        page.wait_until(lambda each=each: each.evaluate(NOT_EMPTY) > 3)
    return both


def test_the_open_row_is_marked_in_a_step_of_both(lab: Lab, runs: Path):
    """Waiting for data is in the second job only; a step of each is shown from its start."""
    page = opened(lab, runs / "before")
    page.page.set_viewport_size({"width": 1610, "height": 1400})
    page.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    page.execute(f"dash.compare = {str(runs / 'after')!r}")
    expect(verdict(page)).to_contain_text("Regression")
    page.execute("panel = dash.panels['change']")
    heads = stacked(page).locator(".hta-side-head")
    expect(heads).to_have_count(2)
    expect(heads.nth(0)).to_contain_text("before, rank 0")
    expect(heads.nth(1)).to_contain_text("after, rank 0")
    before = [picture(each) for each in canvases(page)]
    waterfall = dashboard(page).locator(".hta-figure").nth(1)
    waterfall.locator(".trace.bars").nth(0).locator(".point path").nth(1).click(force=True)
    page.wait_for("list(panel.opened)", ["data_loading"])
    seen = "[int((each.seen['end_ns'] - each.seen['start_ns']).sum()) for each in panel.steps]"
    first, second = page.python(seen)
    assert first < second
    expect(heads.nth(0)).to_contain_text(f"{duration(first)} in 1 piece: data loading")
    expect(heads.nth(1)).to_contain_text(f"{duration(second)} in 1 piece: data loading")
    page.wait_until(lambda: [picture(each) for each in canvases(page)] != before)
    stacked(page).scroll_into_view_if_needed()
    page.screenshot("compare, a step of both")
    page.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    assert page.dialogs == []


def test_a_step_of_each_job_is_picked_and_both_move_together(lab: Lab, runs: Path):
    page = opened(lab, runs / "before")
    page.page.set_viewport_size({"width": 1230, "height": 1400})
    page.execute(f"dash.compare = {str(runs / 'after')!r}\npanel = dash.panels['change']")
    menus = stacked(page).get_by_label("Step")
    expect(menus).to_have_count(2)
    canvases(page)
    typical = page.python("[each.typical for each in panel.steps]")
    assert page.python("[each.step for each in panel.steps]") == typical
    for place, menu in enumerate((menus.nth(0), menus.nth(1))):
        expect(menu.locator("option").first).to_contain_text(f"typical: {typical[place]}, ")
    known = "{int(each) for each in dash.findings.steps['step']}"
    other = page.python(f"max({known} - {{panel.steps[1].step}})")
    before = [picture(each) for each in canvases(page)]
    menus.nth(1).select_option(str(other))
    page.wait_for("[each.step for each in panel.steps]", [typical[0], other])
    page.wait_until(lambda: picture(canvases(page)[1]) != before[1])
    assert page.python("list(dash.selection.steps)") == []
    menus.nth(1).select_option("")
    page.wait_for("[each.step for each in panel.steps]", typical)
    # What zooms one, zooms the other.
    first, second = canvases(page)
    whole = settled(page, first, second)
    first.focus()
    first.press("w")
    page.wait_until(lambda: picture(first) != whole[0] and picture(second) != whole[1])
    zoomed = settled(page, first, second)
    first.press("Home")
    page.wait_until(lambda: picture(first) != zoomed[0] and picture(second) != zoomed[1])
    before = settled(page, first, second)
    box = second.bounding_box()
    page.page.mouse.move(box["x"] + 600, box["y"] + 150)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 400, box["y"] + 150, steps=3)
    page.page.mouse.up()
    page.wait_until(lambda: picture(first) != before[0] and picture(second) != before[1])
    assert page.python("dash.selection.window_ns") is None


def test_a_kernel_that_is_clicked_in_one_is_selected_in_both(lab: Lab, runs: Path):
    page = opened(lab, runs / "before")
    page.page.set_viewport_size({"width": 1230, "height": 1400})
    page.execute(f"dash.compare = {str(runs / 'after')!r}\nother = Selection.of(dash.compare)")
    for place, name in ((0, "dash.selection.kernel"), (1, "other.kernel")):
        canvas = canvases(page)[place]
        y = 20 + 3 + 24 + 4 + 13 + 1 + 8  # below the head: the rank, phases, then a stream
        tip = stacked(page).locator(".hta-tip").nth(place)
        for x in range(200, 1000, 20):  # to where a kernel is
            canvas.hover(position={"x": x, "y": y})
            if tip.is_visible() and "nothing" not in (text := tip.text_content() or ""):
                break
        canvas.click(position={"x": x, "y": y})
        page.wait_until(lambda name=name: page.python(name) != "")
        kernel = page.python(name)
        assert kernel in text
        page.wait_for("(dash.selection.kernel, other.kernel)", [kernel, kernel])
        page.screenshot(f"compare, a kernel of both {place}")
        canvas.click(position={"x": x, "y": y})
        page.wait_for("(dash.selection.kernel, other.kernel)", ["", ""])


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_one_job_has_is_shown_in_its_step(lab: Lab, runs: Path, is_gone: bool):  # noqa: FBT001
    """A cause that is new lights the second job, one that is gone the first."""
    first, second = ("after", "before") if is_gone else ("before", "after")
    page = opened(lab, runs / first)
    page.page.set_viewport_size({"width": 1230, "height": 1400})
    page.execute(f"dash.compare = {str(runs / second)!r}\npanel = dash.panels['change']")
    expect(verdict(page)).to_contain_text("Improvement" if is_gone else "Regression")
    before = [picture(each) for each in canvases(page)]
    row = dashboard(page).locator(".hta-tab-page .hta-findings li").filter(has_text="waiting for")
    show = row.get_by_role("button", name="Show")
    show.click()
    expect(show).to_have_attribute("aria-pressed", "true")
    job = "job" if is_gone else "compare"
    page.wait_for(f"Selection.of(dash.{job}).finding is None", False)
    side = 0 if is_gone else 1
    page.wait_until(lambda: picture(canvases(page)[side]) != before[side])
    stacked(page).scroll_into_view_if_needed()
    page.screenshot(f"compare, a cause that is {'gone' if is_gone else 'new'}")
    assert page.python(f"Selection.of(dash.{'compare' if is_gone else 'job'}).finding") is None
    show.click()
    page.wait_for(f"Selection.of(dash.{job}).finding", None)
