"""Each analysis as a user meets it: acted on in a real JupyterLab, checked in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from hta_widgets.sample import write_sample
from tests.analyses.test_cupti_counters import measured
from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_dashboard import MARGINS
from tests.browser.test_panels import cells, wait_for_charts
from tests.kineto_text import call, host, write


@pytest.fixture
def own_job(tmp_path: Path) -> str:
    """A job beside which files may be written."""
    write_sample(tmp_path, ranks=2, progress=False)
    return str(tmp_path)


def open_panel(lab: Lab, folder: str, expression: str, *, charts: int = 1, **size: int) -> LabPage:
    """Open a panel; without charts where all that it could draw is a single bar."""
    page = lab.open(cells(folder, f"panel = {expression}\npanel"), **size)
    if charts:
        wait_for_charts(page)
    else:
        expect(page.panel().get_by_role("grid")).to_be_visible()
    return page


def drag(page: LabPage, target: Locator, start: float, end: float) -> None:
    """Press at one share of the target's width, move to another and let go."""
    box = target.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.page.mouse.move(box["x"] + box["width"] * start, middle)
    page.page.mouse.down()
    for step in range(1, 11):
        share = start + (end - start) * step / 10
        page.page.mouse.move(box["x"] + box["width"] * share, middle)
    page.page.mouse.up()


def pick_only(page: LabPage, opened: str, name: str) -> None:
    page.panel().get_by_role("button", name=opened).click()
    page.panel().get_by_role("button", name="None").click()
    page.panel().get_by_role("checkbox", name=name, exact=True).click()
    page.page.keyboard.press("Escape")


def test_idle_time_by_delay_and_stream(lab: Lab, job8: str):
    page = open_panel(lab, job8, "IdleTimePanel(job, level='stream')")
    slider = page.panel().get_by_role("slider", name="Kernel-to-kernel gaps: under")
    drag(page, slider, 0.15, 0.9)
    value = float(slider.input_value())
    assert value > 150
    page.wait_for("panel.consecutive_kernel_delay", value)
    pick_only(page, "all 3 streams", "7")
    page.wait_for("panel.streams", [7])
    expect(page.panel().get_by_role("button", name="stream 7")).to_be_visible()
    expect(page.panel().locator(".ytick")).to_have_count(8)
    assert page.python("sorted(set(panel.table['stream']))") == [7]
    page.screenshot("idle time")


def test_picked_streams_are_shared(lab: Lab, job8: str):
    page = open_panel(lab, job8, "IdleTimePanel(job)")
    page.execute("queue = QueueLengthPanel(job)")
    pick_only(page, "all 3 streams", "7")
    page.wait_for("[queue.streams, queue.selection.streams]", [[7], [7]])


@pytest.mark.parametrize(("width", "rows"), [(1100, 2), (1500, 1)])
def test_the_bars_of_the_roofline_have_room_beside_their_names(
    lab: Lab, job8: str, width: int, rows: int
):
    page = open_panel(lab, job8, "RooflinePanel(job)", width=width + MARGINS, height=1300)
    charts = page.panel().locator(".js-plotly-plot")
    expect(charts).to_have_count(2)
    tops = {chart.bounding_box()["y"] for chart in charts.all()}
    assert len(tops) == rows
    widths = charts.evaluate_all("nodes => nodes.map(node => node._fullLayout._size.w)")
    assert min(widths) > 380
    page.screenshot(f"roofline {width}")


def test_launch_cutoffs(lab: Lab, job8: str):
    page = open_panel(lab, job8, "LaunchStatsPanel(job)", height=1100)
    before = page.charts()
    slider = page.panel().get_by_role("slider", name="Delays longer than")
    drag(page, slider, 0.05, 0.6)
    value = float(slider.input_value())
    page.wait_for("panel.launch_delay_cutoff", value)
    field = page.panel().get_by_role("spinbutton", name="Calls longer than")
    field.fill("5")
    field.press("Enter")
    page.wait_for("panel.runtime_cutoff", 5)
    expect(page.panel().locator(".hta-finding")).to_contain_text("5 µs")
    page.wait_until(lambda: page.charts()[1] != before[1])
    page.wait_until(lambda: page.charts()[2] != before[2])
    page.screenshot("launch stats")


def axis_range(page: LabPage) -> list[float]:
    plot = page.panel().locator(".js-plotly-plot")
    return list(plot.evaluate("node => node._fullLayout.xaxis.range"))


def shown(page: LabPage) -> int:
    """Points of the first line that lie in the range shown."""
    return int(
        page.panel()
        .locator(".js-plotly-plot")
        .evaluate(
            """node => {
                const [start, end] = node._fullLayout.xaxis.range;
                return [...node._fullData[0].x].filter((x) => x >= start && x <= end).length;
            }"""
        )
    )


def wait_for_range(page: LabPage, window: list[float]) -> None:
    """Wait until the chart shows a window, and shows what Python drew for it."""
    page.page.wait_for_function(
        """([start, end]) => {
            const node = document.querySelector('.hta-panel .js-plotly-plot');
            const near = (a, b) => Math.abs(a - b) < (end - start) / 1000;
            return [node.layout.xaxis.range, node._fullLayout.xaxis.range]
                .every(([a, b]) => near(a, start) && near(b, end));
        }""",
        arg=window,
    )
    page.page.wait_for_timeout(300)


def test_a_zoom_into_the_queue_length_shows_more(lab: Lab, job8: str):
    page = open_panel(lab, job8, "QueueLengthPanel(job)", height=1000)
    whole = axis_range(page)
    plot = page.panel().locator(".js-plotly-plot .nsewdrag").first
    expect(page.panel().locator(".xtitle")).to_contain_text("changes drawn")
    width = whole[1] - whole[0]
    page.screenshot("queue length")

    drag(page, plot, 0.30, 0.40)
    page.page.wait_for_function("() => document.querySelector('.hta-zoom button:not([hidden])')")
    window = page.python("panel.window_us")
    assert window[0] == pytest.approx(whole[0] + 0.30 * width, abs=0.01 * width)
    assert window[1] == pytest.approx(whole[0] + 0.40 * width, abs=0.01 * width)
    wait_for_range(page, window)
    sharper = shown(page)
    coarse = page.python(
        "len([x for x in QueueLengthPanel(job).figures.popitem()[1].data[0].x"
        " if panel.window_us[0] <= x <= panel.window_us[1]])"
    )
    assert sharper > 2 * coarse
    page.screenshot("queue length zoomed")

    requests = page.python("panel._req")
    page.page.wait_for_timeout(700)
    assert page.python("panel._req") == requests
    page.execute("panel.ranks = [0]")
    page.page.wait_for_timeout(500)
    assert axis_range(page) == pytest.approx(window, rel=1e-6)

    page.panel().locator(".js-plotly-plot .nsewdrag").first.dblclick()
    page.wait_for("panel.window_us", [])
    page.execute("panel.ranks = []")
    wait_for_range(page, whole)


def test_python_moves_the_zoom_and_the_button_takes_it_back(lab: Lab, job8: str):
    page = open_panel(lab, job8, "QueueLengthPanel(job)", height=1000)
    whole = axis_range(page)
    page.execute("panel.window_us = [30_000, 40_000]")
    wait_for_range(page, [30_000, 40_000])
    page.panel().get_by_role("button", name="Show all").click()
    page.wait_for("panel.window_us", [])
    wait_for_range(page, whole)
    page.panel().locator(".hta-figure").focus()
    page.page.keyboard.press("+")
    quarter = (whole[1] - whole[0]) / 4
    wait_for_range(page, [whole[0] + quarter, whole[1] - quarter])
    for _ in range(4):
        page.page.keyboard.press("ArrowRight")
    wait_for_range(page, [whole[0] + 3 * quarter, whole[1] + quarter])
    page.page.keyboard.press("0")
    page.wait_for("panel.window_us", [])


def test_counters_are_written_by_a_button(lab: Lab, own_job: str):
    page = open_panel(lab, own_job, "QueueLengthPanel(job)")
    button = page.panel().get_by_role("button", name="Export for Perfetto…", exact=True)
    button.click()
    status = page.panel().get_by_role("status")
    expect(status).to_contain_text("Wrote ")
    expect(status).to_contain_text("next to the traces")
    expect(button).to_have_attribute("aria-disabled", "false")
    written = sorted(path.name for path in Path(own_job).glob("*_with_counters*"))
    assert len(written) == 2
    assert all(name in status.text_content() for name in written)
    page.screenshot("counters written")
    opens = status.get_by_role("link", name="ui.perfetto.dev")
    expect(opens).to_have_attribute("href", "https://ui.perfetto.dev")


def test_a_file_that_a_button_wrote_is_downloaded(lab: Lab, job8: str):
    page = lab.open(cells(job8, "panel = TimelinePanel(job, ranks=[0])\npanel"))
    page.panel().get_by_role("button", name="Perfetto: this window", exact=True).click()
    status = page.panel().get_by_role("status")
    button = status.get_by_role("button", name="Download")
    with page.page.expect_download() as downloading:
        button.click()
    written = lab.root / downloading.value.suggested_filename
    assert Path(downloading.value.path()).read_bytes() == written.read_bytes()
    expect(button).to_be_enabled()
    page.page.wait_for_timeout(500)
    assert sum(b"written-file" in each for each in page.sent) == 1  # it asked again and again
    page.screenshot("downloaded")


def transfers(page: LabPage) -> set[str]:
    return {line["name"].split(" · ")[-1] for line in page.charts()[0]}


def test_memory_bandwidth_by_transfer(lab: Lab, job8: str):
    page = open_panel(lab, job8, "MemoryBandwidthPanel(job)")
    page.panel().get_by_role("radio", name="Memcpy HtoD").check(force=True)
    page.wait_for("panel.transfer", "Memcpy HtoD")
    expect(page.panel().locator(".js-plotly-plot")).not_to_contain_text("Memset")
    page.wait_until(lambda: transfers(page) == {"Memcpy HtoD (GB/s)"})
    drag(page, page.panel().locator(".js-plotly-plot .nsewdrag").first, 0.2, 0.5)
    page.page.wait_for_function("() => document.querySelector('.hta-zoom button:not([hidden])')")
    window: list[Any] = page.python("panel.window_us")
    wait_for_range(page, window)
    page.screenshot("memory bandwidth")


def test_kernel_sequences_of_a_searched_operator(lab: Lab, own_job: str):
    page = open_panel(lab, own_job, "KernelSequencesPanel(job, whole_name=False)", charts=0)
    search = page.panel().get_by_role("combobox", name="Operator")
    before = search.input_value()
    search.click()
    listbox = page.panel().get_by_role("listbox", name="Operator")
    expect(listbox.get_by_role("option", selected=True)).to_contain_text(before)
    page.screenshot("operators")
    search.fill("layer norm")
    search.press("Escape")
    expect(search).to_have_value(before)
    search.fill("aten::mm")
    expect(listbox.get_by_role("option").first).to_contain_text("calls")
    page.screenshot("operators found")
    search.press("ArrowDown")
    search.press("ArrowUp")
    search.press("Enter")
    expect(listbox).to_be_hidden()
    chosen = search.input_value()
    assert chosen == "aten::mm"
    page.wait_for("panel.operator_name", chosen)

    page.execute("panel.min_pattern_len = 1")
    field = page.panel().get_by_role("spinbutton", name="Top sequences")
    field.fill("2")
    field.press("Enter")
    page.wait_for("panel.top_k", 2)
    expect(page.panel().locator(".bars .point")).to_have_count(2)

    page.panel().get_by_role("button", name="Write marked trace", exact=True).click()
    expect(page.panel().get_by_role("status").first).to_contain_text("Wrote overlaid_")
    assert [path.name for path in page.path.parent.glob("overlaid_*")]
    page.screenshot("kernel sequences")


def test_an_error_of_a_button_is_said(lab: Lab, own_job: str):
    page = open_panel(lab, own_job, "KernelSequencesPanel(job)", charts=0)
    search = page.panel().get_by_role("combobox", name="Operator")
    search.fill("no such thing")
    search.press("Enter")
    page.wait_for("panel.operator_name", "no such thing")
    page.panel().get_by_role("button", name="Write marked trace", exact=True).click()
    status = page.panel().get_by_role("status")
    expect(status).to_contain_text("there is no pattern to mark")
    page.screenshot("overlay refused")
    page.execute("panel.operator_name = 'aten::linear'")
    expect(search).to_have_value("aten::linear")


def test_cupti_counters_by_counter(lab: Lab, tmp_path: Path):
    events = [host(0, 9, "outer"), host(1, 7, "inner"), call(2, 1, 1)]
    events += [host(10, 9, "later"), host(11, 7, "second"), call(12, 1, 2)]
    counters = {f"{name}_sum": 4 + place for place, name in enumerate("abcde")}
    events += [measured(50, correlation=each, **counters) for each in (1, 2)]
    write(tmp_path / "rank-0.json", events)
    page = open_panel(lab, str(tmp_path), "CuptiCountersPanel(job)")
    page.panel().get_by_role("combobox", name="Counter").select_option("c.sum")
    page.wait_for("panel.counter", "c.sum")
    page.panel().get_by_role("radio", name="Innermost").check(force=True)
    page.wait_for("panel.level", "bottom_level_op")
    expect(page.panel().locator(".ytick").filter(has_text="inner")).to_be_visible()
    expect(page.panel().locator(".ytick")).to_have_count(2)
    expect(page.panel().locator(".xtitle")).to_have_text("c.sum, sum")
    page.screenshot("cupti counters")
