"""The panels of the two studies on every format, acted on in a real JupyterLab."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from hta_widgets.sample.table_formats import write_cupti_tables, write_overlap_recipe
from hta_widgets.trace.opening.open import open_trace
from tests.browser.lab_pages import Lab, LabPage
from tests.browser.test_analysis_panels import drag, open_panel
from tests.browser.test_panels import cells, click_bar, wait_for_charts
from tests.recipe_folder import SLOW_NODE, write_recipe_folder

RANKS = 512
BYTES_PER_SLICE = 20


@pytest.fixture(scope="session")
def recipe512(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("recipe512")
    write_recipe_folder(folder, ranks=RANKS)
    return str(folder)


@pytest.fixture(scope="session")
def tables8(job8, tmp_path_factory) -> str:
    """The job of eight ranks as CUPTI tables."""
    folder = tmp_path_factory.mktemp("formats") / "tables8"
    write_cupti_tables(open_trace(job8, progress=False), folder)
    return str(folder)


@pytest.fixture(scope="session")
def recipe8(job8, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("formats") / "recipe8"
    return str(write_overlap_recipe(open_trace(job8, progress=False), folder))


def choose(page: LabPage, name: str) -> None:
    page.panel().get_by_role("radio", name=name, exact=True).check(force=True)


def slide(page: LabPage, name: str, start: float, end: float) -> float:
    slider = page.panel().get_by_role("slider", name=name)
    drag(page, slider, start, end)
    return float(slider.input_value())


def rows_drawn(page: LabPage, chart: int) -> tuple[int, int]:
    """Rows and columns of the first heatmap of a chart, as plotly has them."""
    node = page.panel().locator(".js-plotly-plot").nth(chart)
    rows, columns = node.evaluate(
        "node => [node._fullData[0].z.length, node._fullData[0].z[0].length]"
    )
    return rows, columns


def click_row(page: LabPage, row: int, rows: int) -> None:
    """Point at a row of the first heatmap, wait for its label as a person would, and click."""
    plot = page.panel().locator(".js-plotly-plot").first
    area = plot.locator(".cartesianlayer .subplot.xy .bglayer, .bglayer .bg").first.bounding_box()
    assert area is not None
    x, y = area["x"] + area["width"] / 2, area["y"] + area["height"] * (row + 0.5) / rows
    page.page.mouse.move(x, y - 2)
    page.page.mouse.move(x, y)
    expect(plot.locator(".hoverlayer .hovertext")).to_contain_text(f"Rank {row}")
    page.page.mouse.click(x, y)


def test_512_ranks_of_a_recipe_folder(lab: Lab, recipe512: str):
    page = open_panel(lab, recipe512, "RankOverlapPanel(job)", height=1100)
    assert page.python("len(job.ranks)") == RANKS
    expect(page.panel().locator(".hta-finding")).to_contain_text(f"Node {SLOW_NODE}")
    assert rows_drawn(page, 0) == (RANKS, 1)
    assert rows_drawn(page, 1) == (RANKS, 30)
    page.screenshot("rank overlap 512")
    value = slide(page, "Time slices", 0.15, 0.5)
    page.wait_for("panel.slices", value)
    page.wait_until(lambda: rows_drawn(page, 1) == (RANKS, value))
    parts = "['compute_ns', 'communicate_ns', 'overlap_ns', 'empty_ns']"
    total = page.python(f"int(panel.result.slices[{parts}].sum().sum())")
    assert total == page.python("int(panel.result.lanes['span_ns'].sum())")


def test_512_ranks_are_read_once_and_answer_in_few_bytes(lab: Lab, recipe512: str):
    page = open_panel(lab, recipe512, "RankOverlapPanel(job)", height=1100)
    page.execute("import pyarrow.parquet; pyarrow.parquet.ParquetFile = None")
    field = page.panel().get_by_role("spinbutton", name="Time slices")
    for slices in (40, 50, 60, 70, 80):
        received = page.received_bytes
        field.fill(str(slices))
        field.press("Enter")
        page.wait_until(lambda count=slices: rows_drawn(page, 1) == (RANKS, count))
        assert page.received_bytes - received < BYTES_PER_SLICE * RANKS * slices


def test_a_row_of_the_map_selects_its_rank(lab: Lab, recipe8: str):
    page = open_panel(lab, recipe8, "RankOverlapPanel(job)", height=1000)
    click_row(page, 7, 8)
    page.wait_for("panel.selection.ranks", [7])
    expect(page.panel().get_by_role("button", name="rank 7")).to_be_visible()
    choose(page, "Time")
    page.wait_for("panel.as_percent", False)
    choose(page, "Outliers")
    page.wait_for("panel.listed", "outliers")
    page.screenshot("rank overlap")


def test_streams_and_a_common_window(lab: Lab, job8: str):
    page = open_panel(lab, job8, "RankOverlapPanel(job)", height=1400)
    choose(page, "Streams")
    page.wait_for("panel.by", "stream")
    streams = page.python("len(panel.result.lanes)")
    assert streams > 8
    expect(page.panel().locator(".ytick text", has_text="stream").first).to_be_visible()
    page.panel().get_by_role("checkbox", name="Same window for all ranks").check()
    page.wait_for("panel.common_window", True)
    assert page.python("panel.result.lanes['span_ns'].nunique()") == 1
    page.screenshot("rank overlap by stream")


def test_any_percentage_of_the_longest(lab: Lab, tables8: str):
    page = open_panel(lab, tables8, "DurationTailsPanel(job)", height=1000)
    before = page.charts()
    slide(page, "Longest events", 0.3, 0.8)
    value = float(page.panel().get_by_role("spinbutton", name="Longest events").input_value())
    page.wait_for("panel.percent", value)
    assert value not in (1, 5, 10)
    assert page.python("sorted(set(panel.result.tails['percent']))[-1]") == max(value, 10)
    page.wait_until(lambda: page.charts() != before)
    choose(page, "Host")
    page.wait_for("panel.side", "host")
    page.panel().locator("summary", has_text="Data table").click()
    expect(page.panel().locator(".hta-table")).to_contain_text("needs at least")
    page.screenshot("duration tails")


def test_launch_overlap_of_a_rank(lab: Lab, tables8: str):
    page = open_panel(lab, tables8, "LaunchOverlapPanel(job)", height=1100)
    click_bar(page, 3)
    page.wait_for("panel.ranks", [3])
    choose(page, "Kernels by API")
    page.wait_for("panel.listed", "apis_by_kernel")
    choose(page, "Time")
    page.wait_for("panel.as_percent", False)
    expect(page.panel().locator(".hta-finding")).to_contain_text("launches started before")
    page.screenshot("launch overlap")


def test_two_jobs_of_different_formats(lab: Lab, job8: str, tables8: str):
    page = lab.open(
        cells(job8, f"panel = ComparePanel({tables8!r}, open_trace({job8!r}))\npanel"), height=1200
    )
    wait_for_charts(page)
    expect(page.panel().locator(".hta-title")).to_contain_text("tables8 →")
    assert page.python("(panel.result.kernels['in'] == 'both').all().item()")
    choose(page, "Launches")
    page.wait_for("panel.sort_by", "count")
    page.panel().get_by_label("Table", exact=True).select_option(label="Times")
    page.wait_for("panel.listed", "times")
    assert page.python("list(panel.table['time'])[0]") == "span"
    expect(page.panel().locator(".hta-error")).to_be_hidden()
    page.screenshot("compare formats")


def test_compared_kernels_of_two_real_jobs(lab: Lab, real_traces: Path):
    first, second = (
        str(real_traces / "kineto" / name) for name in ("compare_control", "compare_test")
    )
    page = lab.open(
        ["from hta_widgets.panels import *", f"panel = ComparePanel({first!r}, {second!r})\npanel"],
        height=1300,
    )
    wait_for_charts(page)
    bars = page.panel().locator(".js-plotly-plot").first.locator(".bars .point")
    expect(bars).to_have_count(10)
    value = slide(page, "Top kernels", 0.1, 0.3)
    page.wait_for("panel.num_kernels", value)
    expect(bars).to_have_count(int(value))
    bars.first.click(force=True)
    page.wait_for("panel.selection.kernel", page.python("panel.result.kernels['name_first'][0]"))
    page.panel().get_by_label("Table", exact=True).select_option(label="Only in one")
    page.wait_for("panel.listed", "only_in_one")
    assert page.python("sorted(set(panel.table['in']))") == ["first", "second"]
    page.screenshot("compare")


def test_every_panel_of_a_real_export(lab: Lab, real_traces: Path):
    export = str(real_traces / "nsys" / "h100_2gpu_1s.sqlite")
    page = lab.open(cells(export, "dashboard = Dashboard(job)\ndashboard"), width=1500)
    count = page.python("len(dashboard.panels)")
    assert page.python("list(dashboard.panels)") == [
        "diagnosis",
        "what_if",
        "timeline",
        "rank_overlap",
        "temporal_breakdown",
        "critical_path",
        "kernel_breakdown",
        "duration_tails",
        "kernel_sequences",
        "operators",
        "flame",
        "modules",
        "gpu_annotations",
        "roofline",
        "idle_owners",
        "idle_time",
        "launch_stats",
        "launch_overlap",
        "queue_length",
        "memory_bandwidth",
        "ranks",
        "fusable_kernels",
        "second_job",
    ]
    page.execute("dashboard.selection.ranks = [1]")
    page.wait_for("[panel.ranks for panel in dashboard.panels.values()]", [[1]] * count)
    for tab in page.panel().get_by_role("tab").all():
        if tab.inner_text() == "Compare":
            continue  # nothing is compared
        tab.click()
        expect(page.page.locator(".hta-tab-page .main-svg").first).to_be_visible()
    assert page.python("all(panel.result is not None for panel in dashboard.panels.values())")
    assert page.python("[panel._view['error'] for panel in dashboard.panels.values()]") == (
        [None] * count
    )
    page.page.wait_for_timeout(1000)
    page.screenshot("nsys dashboard")


def test_a_recipe_folder_has_the_panels_that_it_can_fill(lab: Lab, recipe8: str):
    page = lab.open(cells(recipe8, "dashboard = Dashboard(job)\ndashboard"), height=2000)
    assert page.python("list(dashboard.panels)") == [
        "rank_overlap",
        "temporal_breakdown",
        "overlap",
        "second_job",
    ]
    expect(page.panel().get_by_role("tab")).to_have_text(["Ranks", "Communication", "Compare"])
    expect(page.page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    page.screenshot("recipe dashboard")
