"""The panels as a user meets them: acted on in a real JupyterLab, checked in Python."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.lab_pages import Lab, LabPage
from tests.kineto_text import kernel, write

EVIL = "<img src=x onerror=alert(1)><a href='https://evil.example'>gemm</a>"


def cells(folder: str, *expressions: str) -> list[str]:
    imports = "from hta_widgets import open_trace\nfrom hta_widgets.panels import *"
    return [f"{imports}\njob = open_trace({folder!r})", *expressions]


def wait_for_charts(page: LabPage, panels: int = 1) -> None:
    for number in range(panels):
        expect(page.panel(number).locator(".js-plotly-plot .main-svg").first).to_be_visible()


def kernel_panel(lab: Lab, folder: str) -> LabPage:
    page = lab.open(cells(folder, "panel = KernelBreakdownPanel(job)\npanel"))
    wait_for_charts(page)
    return page


def click_bar(page: LabPage, rank: int, *modifiers: str) -> None:
    """Point at the bar, wait for its label as a person would, and click."""
    bar = page.panel().locator(".trace.bars").first.locator(".point path").nth(rank)
    bar.hover(force=True)
    expect(page.panel().locator(".hoverlayer .hovertext")).to_contain_text(f"Rank {rank}")
    bar.click(force=True, modifiers=modifiers)


def test_dragging_the_slider_changes_python_and_the_chart(lab: Lab, job8: str):
    page = kernel_panel(lab, job8)
    bars = page.panel().locator(".hta-figure").nth(1).locator(".bars .point")
    before = bars.count()
    slider = page.panel().get_by_role("slider", name="Top kernels")
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.page.mouse.move(box["x"] + box["width"] * 0.12, middle)
    page.page.mouse.down()
    for step in range(12, 2, -1):
        page.page.mouse.move(box["x"] + box["width"] * step / 100, middle)
    page.page.mouse.up()
    value = int(slider.input_value())
    assert value < 10
    page.wait_for("panel.num_kernels", value)
    expect(bars).not_to_have_count(before)
    assert page.python("len(panel.result.kernels) < 12 * 8")


def test_a_typed_ratio_is_taken_and_a_wrong_one_explained(lab: Lab, job8: str):
    page = kernel_panel(lab, job8)
    field = page.panel().get_by_role("spinbutton", name="Time covered")
    field.fill("0.5")
    field.press("Enter")
    page.wait_for("panel.duration_ratio", 0.5)
    field.fill("1.5")
    field.press("Enter")
    expect(page.panel().get_by_text("at most 1")).to_be_visible()
    assert page.python("panel.duration_ratio") == 0.5


def test_python_moves_the_controls(lab: Lab, job8: str):
    page = kernel_panel(lab, job8)
    page.execute("panel.num_kernels = 33; panel.kernel_type = 'MEMORY'")
    expect(page.panel().get_by_role("spinbutton", name="Top kernels")).to_have_value("33")
    expect(page.panel().get_by_role("combobox", name="Type")).to_have_value("MEMORY")


def test_a_picked_rank_is_picked_in_every_panel(lab: Lab, job8: str):
    page = lab.open(
        cells(
            job8, "first = TemporalBreakdownPanel(job)\nfirst", "second = OverlapPanel(job)\nsecond"
        )
    )
    wait_for_charts(page, 2)
    page.panel(0).get_by_role("button", name="all 8 ranks").click()
    page.panel(0).get_by_role("button", name="None").click()
    page.panel(0).get_by_role("checkbox", name="3").click()
    page.wait_for("second.ranks", [3])
    page.page.keyboard.press("Escape")
    expect(page.panel(1).get_by_role("button", name="rank 3")).to_be_visible()
    expect(page.panel(1).locator(".hta-finding")).to_contain_text("rank 3")
    page.wait_until(lambda: page.charts(1)[0][0]["selectedpoints"] == [3])


def test_a_click_on_a_bar_selects_its_rank(lab: Lab, job8: str):
    page = lab.open(
        cells(
            job8, "first = TemporalBreakdownPanel(job)\nfirst", "second = OverlapPanel(job)\nsecond"
        )
    )
    wait_for_charts(page, 2)
    click_bar(page, 5)
    page.wait_for("second.selection.ranks", [5])
    click_bar(page, 6, "Control")
    page.wait_for("second.selection.ranks", [5, 6])
    click_bar(page, 6)
    page.wait_for("second.selection.ranks", [6])
    click_bar(page, 6)
    page.wait_for("second.selection.ranks", [])


def test_a_chart_is_worked_with_the_keyboard(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = TemporalBreakdownPanel(job)\npanel"))
    wait_for_charts(page)
    page.panel().locator(".hta-figure").focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowRight")
    expect(page.panel().locator(".hoverlayer .hovertext")).to_contain_text("Rank 1")
    page.page.keyboard.press("Enter")
    page.wait_for("panel.ranks", [1])


def test_keys_move_the_slider_and_nothing_else(lab: Lab, job8: str):
    page = kernel_panel(lab, job8)
    count = page.page.locator(".jp-Cell").count()
    page.panel().get_by_role("slider", name="Top kernels").focus()
    for key in ("ArrowRight", "ArrowUp", "b", "a", "x"):
        page.page.keyboard.press(key)
    page.wait_for("panel.num_kernels", 12)
    page.page.keyboard.press("ArrowLeft")
    page.wait_for("panel.num_kernels", 11)
    assert page.page.locator(".jp-Cell").count() == count


def test_a_clicked_kernel_shows_its_durations(lab: Lab, job8: str):
    page = kernel_panel(lab, job8)
    top = page.panel().locator(".hta-figure").nth(1)
    top.locator(".bars .point path").first.click(force=True)
    expect(page.panel().locator(".hta-figure")).to_have_count(3)
    assert page.python("panel.selection.kernel in set(panel.result.kernels['name'])")
    wanted = page.python("panel.figures and list(panel.figures)[2]")
    expect(page.panel().locator(".hta-caption").nth(2)).to_have_text(wanted)


def test_an_error_is_said_in_the_panel(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = TemporalBreakdownPanel(job)\npanel"))
    wait_for_charts(page)
    page.execute("panel.set_state({'ranks': [42]})  # as from a page")
    expect(page.panel().get_by_role("alert")).to_have_text(
        "rank 42 is not in this job; its ranks are 0-7"
    )
    expect(page.panel().locator(".bars .point").first).to_be_visible()
    page.screenshot("error")
    page.execute("panel.ranks = [1]")
    expect(page.panel().locator(".hta-error")).to_be_hidden()


def test_names_from_a_trace_are_text(lab: Lab, tmp_path):
    write(tmp_path / "rank0.json", [kernel(0, 10, name=EVIL), kernel(20, 5, name="plain")])
    page = kernel_panel(lab, str(tmp_path))
    chart = page.panel().locator(".hta-figure").first
    chart.locator(".point path").first.click(force=True)
    page.panel().get_by_text(re.compile("Data table")).click()
    expect(page.panel().locator("td").first).to_have_attribute("title", EVIL)
    assert "<img" in chart.locator(".ytick").first.text_content()
    assert page.panel().locator("img, a[href*=evil]").count() == 0
    assert page.dialogs == []


def test_the_chart_follows_its_box(lab: Lab, job8: str):
    page = lab.open(
        cells(
            job8,
            "import ipywidgets\n"
            "panels = [TemporalBreakdownPanel(job), OverlapPanel(job)]\n"
            "tab = ipywidgets.Tab(panels)\ntab",
        )
    )
    wait_for_charts(page)
    page.execute("tab.selected_index = 1")
    chart = page.panel(1).locator(".main-svg").first
    expect(chart).to_be_visible()
    before = chart.bounding_box()["width"]
    assert before > 700
    page.page.set_viewport_size({"width": 800, "height": 900})
    page.wait_until(lambda: chart.bounding_box()["width"] < before - 300)


def test_the_theme_is_followed(lab: Lab, job8: str):
    page = lab.open(cells(job8, "TemporalBreakdownPanel(job)"))
    wait_for_charts(page)
    tick = page.panel().locator(".ytick text").first

    def lightness() -> float:
        colour = tick.evaluate("node => getComputedStyle(node).fill")
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3

    assert lightness() < 100
    with page.theme("Dark"):
        page.wait_until(lambda: lightness() > 180)


def test_a_reloaded_page_shows_the_panels_again(lab: Lab, job8: str):
    shown = ("panel = KernelBreakdownPanel(job)\npanel", "verdict = DiagnosisPanel(job)\nverdict")
    page = lab.open(cells(job8, *shown), alone=True)
    wait_for_charts(page, 2)
    page.execute("panel.num_kernels = 4")
    page.reload()
    wait_for_charts(page, 2)
    sentence = page.python("verdict.result.finding")
    expect(page.panel(1).locator(".hta-findings")).to_contain_text(sentence)
    expect(page.panel(1).locator(".hta-advice").first).to_be_visible()
    expect(page.panel().get_by_role("spinbutton", name="Top kernels")).to_have_value("4")
    page.panel().get_by_role("spinbutton", name="Top kernels").fill("6")
    page.panel().get_by_role("spinbutton", name="Top kernels").press("Enter")
    page.wait_for("panel.num_kernels", 6)


def test_jslink_moves_a_panel(lab: Lab, job8: str):
    page = lab.open(
        cells(
            job8,
            "import ipywidgets\n"
            "panel = KernelBreakdownPanel(job)\n"
            "slider = ipywidgets.IntSlider(10, 1, 100)\n"
            "link = ipywidgets.jslink((slider, 'value'), (panel, 'num_kernels'))\n"
            "ipywidgets.VBox([slider, panel])",
        )
    )
    wait_for_charts(page)
    page.execute("slider.value = 3")
    page.wait_for("panel.num_kernels", 3)
    expect(page.panel().get_by_role("spinbutton", name="Top kernels")).to_have_value("3")


def test_the_dashboard_links_its_panels(lab: Lab, job8: str):
    page = lab.open(
        cells(job8, "board = Dashboard(job)\nboard", "panel = TemporalBreakdownPanel(job)\npanel"),
        width=1400,
        height=1500,
    )
    expect(page.page.locator(".hta-dashboard .main-svg").first).to_be_visible()
    alone = page.page.get_by_role("region", name="Temporal breakdown")
    alone.get_by_role("button", name="all 8 ranks").click()
    alone.get_by_role("checkbox", name="0").click()
    page.wait_for("board.selection.ranks", [1, 2, 3, 4, 5, 6, 7])
    page.wait_for(
        "{tuple(panel.ranks) for panel in board.panels.values()} == {(*range(1, 8),)}", True
    )
    expect(page.page.locator(".hta-dashboard .hta-chip")).to_have_text("ranks 1–7 ×")


def test_a_panel_that_was_replaced_is_not_recomputed(lab: Lab, job8: str):
    page = lab.open(cells(job8, "old, new = globals().get('new'), OverlapPanel(job)\nnew"))
    wait_for_charts(page)
    page.run_all()
    page.wait_for("old is not None and old._visible", expected=False)
    expect(page.panel().locator(".main-svg").first).to_be_visible()
    assert page.python("new._visible")


AMD_LOADER = """%%javascript
globalThis.define = () => {};
globalThis.define.amd = {};
"""


def test_an_amd_loader_on_the_page_catches_no_module(lab: Lab, job8: str):
    page = lab.open([AMD_LOADER, *cells(job8, "KernelBreakdownPanel(job)")], alone=True)
    assert page.page.evaluate("typeof define.amd") == "object"
    expect(page.panel().locator(".main-svg").first).to_be_visible()
