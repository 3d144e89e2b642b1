from __future__ import annotations

from html import escape

from IPython.core.formatters import DisplayFormatter

from hta_widgets.panels import Dashboard, Panel, Selection
from hta_widgets.trace.job import Job
from tests.kineto_text import call, kernel, write


def test_all_panels_share_the_selection_of_the_job(loaded: Job):
    board = Dashboard(loaded)
    assert board.selection is Selection.of(loaded)
    assert all(panel.selection is board.selection for panel in board.panels.values())
    board.selection.ranks = [1]
    assert all(panel.ranks == [1] for panel in board.panels.values())
    board.selection.ranks = []


def test_the_header_names_the_job_its_ranks_and_its_files(loaded: Job):
    header = Dashboard(loaded).header
    assert header._spec["title"] == loaded.name
    assert header.result.finding == "4 ranks: 0-3."
    assert header.table["rank"].tolist() == [0, 1, 2, 3]
    assert header.figures == {}


def test_notices_on_the_job_are_said_once(loaded: Job):
    board = Dashboard(loaded)
    assert any("ProfilerStep" in notice for notice in board.header._view["notices"])
    for panel in board.panels.values():
        assert not any("ProfilerStep" in notice for notice in panel._view["notices"])
        assert any("ProfilerStep" in notice for notice in panel.result.notices)


def test_panels_are_found_by_the_name_of_their_analysis(loaded: Job):
    board = Dashboard(loaded)
    assert {"temporal_breakdown", "overlap", "kernel_breakdown"} <= set(board.panels)
    assert all(isinstance(panel, Panel) for panel in board.panels.values())
    assert "kernel_breakdown" in repr(board)


def test_counters_have_a_panel_only_where_there_are_any(loaded: Job, tmp_path):
    counted = kernel(0, 1, cat="cuda_profiler_range", **{"inst.sum": 10})
    path = write(tmp_path / "trace.json", [call(0, 1, 1), counted])
    assert "cupti_counters" not in Dashboard(loaded).panels
    assert "cupti_counters" in Dashboard(path).panels


def test_its_panels_are_references_for_the_browser(loaded: Job):
    board = Dashboard(loaded)
    shown = [board.header, *board.panels.values()]
    assert board.get_state()["_panels"] == [f"anywidget:{panel.model_id}" for panel in shown]
    assert [panel._spec["wide"] for panel in shown] == [panel.wide for panel in shown]
    assert board.header.wide


def test_its_summary_has_the_findings_and_first_rows_of_all_panels(loaded: Job):
    board = Dashboard(loaded)
    data, _ = DisplayFormatter().format(board)
    assert data["text/plain"] == repr(board)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == board.model_id
    for panel in (board.header, *board.panels.values()):
        assert escape(panel.result.finding) in data["text/html"]
        assert escape(panel._view["table"]["rows"][0][0]) in data["text/html"]


def test_its_summary_is_escaped_and_stays_small(tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    names = [f"{place} {evil * 999}" for place in range(40)]
    calls = [call(10 * place, 1, place) for place in range(40)]
    kernels = [kernel(10 * i + 2, 5, name=name, correlation=i) for i, name in enumerate(names)]
    path = write(tmp_path / "trace.json", [*calls, *kernels])
    page = Dashboard(path)._repr_mimebundle_()[0]["text/html"]
    assert evil not in page
    assert escape(evil) in page
    assert len(page.encode()) <= 60_000


def test_closing_it_closes_its_panels(loaded: Job):
    board = Dashboard(loaded)
    board.close()
    assert all(each.comm is None for each in (board, board.header, *board.panels.values()))
    assert board.selection.comm is not None
