"""The timeline in a real JupyterLab: what it draws, and what acts on it do in Python."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_panels import cells

GUTTER, HEAD = 128, 20

NOT_EMPTY = """canvas => {
    const { data } = canvas.getContext('2d').getImageData(90, 30, canvas.width - 100, 40);
    return new Set(new Uint32Array(data.buffer)).size;
}"""


@pytest.fixture
def page(lab: Lab, job8: str) -> LabPage:
    page = lab.open(cells(job8, "panel = TimelinePanel(job)\npanel"))
    expect(page.panel().locator("canvas")).to_be_visible()
    return page


def lanes(page: LabPage) -> Locator:
    canvas = page.panel().locator(".hta-lanes canvas")
    page.wait_until(lambda: canvas.evaluate(NOT_EMPTY) > 3)
    return canvas


def picture(canvas: Locator) -> str:
    return canvas.evaluate("canvas => canvas.toDataURL()")


def settled(page: LabPage, *canvases: Locator) -> list[str]:
    """What they show once the kernel has answered them: it sharpens a picture later."""
    shown: list[str] = []
    while (now := [picture(each) for each in canvases]) != shown:
        shown = now
        page.page.wait_for_timeout(200)
        page.python("None")  # the kernel answers in the order in which it is asked
    return shown


def place(canvas: Locator, share: float, y: float) -> dict[str, float]:
    """A place on the canvas: a share of the time that is shown, and pixels from the top."""
    width = canvas.bounding_box()["width"] - GUTTER
    return {"x": GUTTER + share * width, "y": y}


def test_a_drag_selects_exactly_the_window(page: LabPage):
    canvas = lanes(page)
    start, end = page.python("panel._timeline['home']")
    box = canvas.bounding_box()
    first, last = (place(canvas, share, HEAD + 15) for share in (0.25, 0.5))
    page.page.mouse.move(box["x"] + first["x"], box["y"] + first["y"])
    page.page.mouse.down()
    for share in (0.3, 0.4, 0.5):
        page.page.mouse.move(box["x"] + place(canvas, share, 0)["x"], box["y"] + last["y"])
    page.page.mouse.up()
    page.wait_for("panel.selection.window_ns is not None", expected=True)
    window = page.python("panel.selection.window_ns")
    pixel = (end - start) / (box["width"] - GUTTER)
    assert abs(window[0] - (start + (end - start) / 4)) <= 2 * pixel
    assert abs(window[1] - (start + (end - start) / 2)) <= 2 * pixel
    canvas.click(position=place(canvas, 0.75, HEAD + 15))
    page.wait_for("panel.selection.window_ns", expected=None)


def test_a_click_on_a_step_selects_it(page: LabPage):
    canvas = lanes(page)
    number, first, last = page.python("panel._timeline['ranks'][0]['steps'][1]")
    start, end = page.python("panel._timeline['home']")
    middle = ((first + last) / 2 - start) / (end - start)
    before = picture(canvas)
    canvas.click(position=place(canvas, middle, HEAD / 2))
    page.wait_for("panel.selection.steps", expected=[number])
    page.wait_until(lambda: picture(canvas) != before)


def test_keys_zoom_in_and_out_again(page: LabPage):
    canvas = lanes(page)
    (before,) = settled(page, canvas)
    canvas.focus()
    for _ in range(6):
        canvas.press("w")
    page.wait_until(lambda: picture(canvas) != before)
    canvas.press("Home")
    page.wait_until(lambda: picture(canvas) == before)
    assert page.python("panel._view['error']") is None


def test_an_opened_rank_shows_streams_and_selects_a_kernel(page: LabPage):
    canvas = lanes(page)
    height = canvas.bounding_box()["height"]
    canvas.click(position={"x": 6, "y": HEAD + 15})
    page.wait_until(lambda: canvas.bounding_box()["height"] > height)
    canvas.focus()
    for _ in range(3):
        canvas.press("ArrowDown")
    spoken = page.panel().locator(".hta-spoken[aria-live]")
    expect(spoken).to_contain_text("rank 0, stream")
    canvas.press("ArrowRight")
    expect(spoken).to_have_text(re.compile(r".+, [\d.]+.[mµn]?s, rank 0$"))
    canvas.press("Enter")
    page.wait_for("panel.selection.kernel != ''", expected=True)
    assert page.python("panel.selection.kernel in panel.job.rank(0).trace.events.name.values")


RUNS = """[
    (names[row].removeprefix('nn.Module: '), start + lanes.offsets_ns[0])
    for lanes in [panel.result.lanes] for events in [panel.job.rank(0).trace.events]
    for names in [dict(enumerate(map(events.name.values.__getitem__, events.name.codes)))]
    for [track] in [lanes.of(0).tracks('modules 2')]
    for row, start in zip(track.row.tolist(), track.start_ns.tolist())
]"""
"""Modules of the third level for which rank 0 works, and when."""


def test_keys_go_from_module_to_module(page: LabPage):
    page.execute("panel.lanes = ['modules']")
    canvas = lanes(page)
    spoken = page.panel().locator(".hta-spoken[aria-live]")
    canvas.focus()
    for _ in range(4):
        canvas.press("ArrowDown")
        page.page.wait_for_timeout(200)
    expect(spoken).to_contain_text("rank 0, modules 2")
    first = page.python("panel._timeline['home'][0]")
    names = [name for name, start in page.python(RUNS) if start >= first]
    assert len({*names[:3]}) == 3
    for key, name in zip(
        ["ArrowRight"] * 3 + ["ArrowLeft"] * 2, [*names[:3], names[1], names[0]], strict=True
    ):
        canvas.press(key)
        expect(spoken).to_have_text(re.compile(rf"^(nn\.Module: )?{re.escape(name)}, .*rank 0$"))
    page.page.wait_for_timeout(300)
    page.screenshot("timeline modules")
    canvas.press("Enter")
    page.wait_for("len(panel.selection.modules)", expected=1)
    assert page.python("panel.selection.modules[0].split(' › ')[-1]") == names[0]
    canvas.press("Enter")
    page.wait_for("len(panel.selection.modules)", expected=0)


def test_the_notebook_keeps_its_keys_and_its_wheel(page: LabPage):
    canvas = lanes(page)
    count = page.page.locator(".jp-Cell").count()
    canvas.focus()
    for key in ("a", "b", "d", "d", "m"):
        canvas.press(key)
    assert page.page.locator(".jp-Cell").count() == count
    assert page.dialogs == []


def test_lanes_are_added_from_the_menu(page: LabPage):
    canvas = lanes(page)
    height = canvas.bounding_box()["height"]
    menu = page.panel().get_by_role("button", name="+ lanes")
    menu.click()
    kinds = page.panel().get_by_role("group", name="Lanes to add to each rank")
    kinds.get_by_label("queue length").check()
    page.wait_for("panel.lanes", expected=["queue"])
    page.wait_until(lambda: canvas.bounding_box()["height"] > height)
    menu.press("Escape")
    expect(kinds).to_be_hidden()


TRANSFER = """[
    (each.rank, each.start_ns + each.ns // 2, each.percent, each.kernel, streams.index(stream))
    for pieces in [critical_path(job).pieces.query("`class` == 'transfer'").sort_values('rank')]
    for each in pieces.head(1).itertuples()
    for events, lanes in [(job.rank(each.rank).trace.events, panel.result.lanes.of(each.rank))]
    for streams in [[name.key for name in lanes.names if name.kind == 'stream']]
    for stream in [f'stream {events.device[each.row]} {events.stream[each.row]}']
]"""
"""A transfer on the critical path: rank, middle, percent, kernel, place of its stream."""

BRIGHTNESS = """(canvas, [x, y]) => {
    const scale = canvas.width / canvas.clientWidth;
    const { data } = canvas.getContext('2d').getImageData(x * scale, y * scale, 1, 1);
    const [red, green, blue] = data;
    return red + green + blue;
}"""


def test_the_critical_path_is_a_lane_and_outlines_its_events(page: LabPage):
    page.execute("from hta_widgets.diagnosis.critical_path import critical_path")
    [[rank, middle, percent, kernel, stream]] = page.python(TRANSFER)
    start, end = page.python("panel._timeline['home']")
    canvas = lanes(page)
    height = canvas.bounding_box()["height"]
    page.panel().get_by_role("button", name="+ lanes").click()
    kinds = page.panel().get_by_role("group", name="Lanes to add to each rank")
    kinds.get_by_label("critical path").check()
    page.wait_for("panel.lanes", expected=["path"])
    page.wait_until(lambda: canvas.bounding_box()["height"] > height)
    kinds.press("Escape")
    top = HEAD + 3 + 28 * rank
    where = place(canvas, (middle - start) / (end - start), top + 28 + 8)
    canvas.hover(position=where)
    canvas.focus()
    for _ in range(5):
        canvas.press("w")
    tip = page.panel().locator(".hta-tip")

    def said() -> str:
        canvas.hover(position={**where, "x": where["x"] + 1})
        canvas.hover(position=where)
        return tip.inner_text().replace("\u00a0", " ")

    page.wait_until(lambda: said().startswith("transfer"))
    share = float(re.search(r"([\d.]+) % of the critical path", said()).group(1))
    assert share == pytest.approx(percent, rel=0.01)
    canvas.click(position=where)
    page.wait_for("panel.selection.kernel", expected=kernel)
    canvas.click(position=where)
    page.wait_for("panel.selection.kernel", expected="")
    canvas.click(position={"x": 6, "y": top + 12})
    edge = [where["x"] + 20, top + 28 + 24 + 14 + 18 * stream + 0.5]
    page.wait_until(lambda: 0 < canvas.evaluate(BRIGHTNESS, edge) < 200)
    page.screenshot("timeline critical path")
    assert canvas.evaluate(BRIGHTNESS, [edge[0], edge[1] + 5]) > 250
    page.execute("panel.lanes = []")
    edge[1] -= 24
    page.wait_until(lambda: canvas.evaluate(BRIGHTNESS, edge) > 250)
