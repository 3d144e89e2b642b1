from __future__ import annotations

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
    header = Dashboard(loaded).children[0]
    assert header._spec["title"] == loaded.name
    assert header.result.finding == "4 ranks: 0-3."
    assert header.table["rank"].tolist() == [0, 1, 2, 3]
    assert header.figures == {}


def test_notices_on_the_job_are_said_once(loaded: Job):
    board = Dashboard(loaded)
    assert any("ProfilerStep" in notice for notice in board.children[0]._view["notices"])
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
