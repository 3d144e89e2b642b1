"""The dashboard of traces with several cycles: another is shown, and compared, in place."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from hta_widgets import open_trace
from hta_widgets.errors import UnknownCycleError
from hta_widgets.panels import Dashboard, Selection
from hta_widgets.trace.opening.open import as_job
from tests.recorded_folders import cycles, write_folder


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "run", cycles(2, 3))


def ask(board, **message):
    """Send what a page sends."""
    board._act(board, message, [])


def test_the_newest_is_shown_and_all_are_offered(folder):
    board = Dashboard(folder)
    spec = board._spec
    assert [each.partition(" (")[0] for each in spec["cycles"]] == ["cycle 0", "cycle 1", "cycle 2"]
    assert (board.cycle, spec["cycle"]) == (2, 2)
    assert Dashboard(folder, cycle=0).cycle == 0
    assert Dashboard(open_trace(folder), cycle=0).cycle == 0
    assert Dashboard(open_trace(folder, cycle=1)).cycle == 1


def test_a_job_with_one_cycle_offers_none(tmp_path):
    assert Dashboard(write_folder(tmp_path / "run", cycles(2, 1)))._spec["cycles"] == []


def test_another_is_shown_in_place(folder):
    board = Dashboard(folder, output_dir=folder, tab="kernels")
    board.set_state({"_visible": True})
    before = [board.header, *board.panels.values()]
    old = board.selection
    assert "cycle 2" in board.header._spec["title"]
    first = board.panels["kernel_breakdown"].table["sum_ns"].sum()
    ask(board, act="cycle", cycle=0)
    assert (board.cycle, board.tab, board._spec["cycle"]) == (0, "kernels", 0)
    assert board.header._spec["title"] == "run, cycle 0"
    assert board.selection is Selection.of(board.job) is not old
    state = board.get_state()
    assert state["_selection"] == f"anywidget:{board.selection.model_id}"
    panels = [board.header, *board.panels.values()]
    assert state["_panels"] == [f"anywidget:{panel.model_id}" for panel in panels]
    assert board._bands["ready"]
    assert board.panels["kernel_breakdown"].table["sum_ns"].sum() < first
    assert board.output_dir == folder
    assert all(panel.comm is None for panel in before)


def test_it_follows_the_selection_of_the_cycle_that_is_shown(folder):
    board = Dashboard(folder)
    board.set_state({"_visible": True})
    old = board.selection
    board.cycle = -2
    assert board.cycle == 1
    shown = board._bands
    old.ranks = [1]
    assert board._bands == shown
    board.selection.ranks = [1]
    assert board._bands["budget"]["whose"].startswith("rank 1")


def test_two_that_are_compared_trade_places(folder):
    board = Dashboard(folder)
    board.compare = board.job.open_cycle(0)
    assert board.panels["compare"].result.finding
    assert board.panels["compare"]._spec["title"] == "run, cycle 2 → run, cycle 0"
    ask(board, act="cycle", cycle=0)
    assert (board.cycle, board.compare.cycle) == (0, 2)
    assert board.panels["second_job"]._second == "run, cycle 2"


def test_another_job_stays_compared(folder, tmp_path):
    later = open_trace(write_folder(tmp_path / "later", cycles(2, 2)))
    board = Dashboard(folder, compare=later)
    board.cycle = 0
    assert board.compare is later


@pytest.mark.parametrize("number", [3, -1, "0", 1.0, True, [0], {}, 10**30])
def test_a_number_that_no_menu_has_changes_nothing(folder, number):
    board = Dashboard(folder)
    before = board.get_state()
    ask(board, act="cycle", cycle=number)
    ask(board, act="cycle")
    ask(board, act=["cycle"], cycle=0)
    assert board.get_state() == before


def test_a_cycle_whose_files_are_gone_is_an_error_on_the_page(folder):
    board = Dashboard(folder)
    board.set_state({"_visible": True})
    for source in board.job.cycles[0].sources.values():
        source.path.unlink()
    panels = board.panels
    ask(board, act="cycle", cycle=0)
    assert "cannot be read" in board._bands["error"]
    assert (board.cycle, board.panels) == (2, panels)
    ask(board, act="cycle", cycle=1)
    assert board._bands["error"] is None


def test_one_that_is_not_there_is_refused_in_python(folder):
    board = Dashboard(folder)
    with pytest.raises(UnknownCycleError, match="there is no cycle 3; there are cycle 0"):
        board.cycle = 3
    with pytest.raises(UnknownCycleError):
        as_job(folder, 5)


def test_a_report_names_the_cycle(folder, tmp_path):
    page = Dashboard(folder, cycle=1).to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "run, cycle 1" in page


def test_nothing_of_the_cycle_before_is_kept(folder):
    board = Dashboard(folder)
    board.set_state({"_visible": True})
    job = ref(board.job)
    board.cycle = 0
    gc.collect()
    assert job() is None
