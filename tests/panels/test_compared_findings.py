"""A dashboard with a second job."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis.compared_findings import compare_findings
from hta_widgets.errors import ParameterError
from hta_widgets.panels import Dashboard
from hta_widgets.panels.dashboard import OF_TWO_JOBS
from hta_widgets.trace.job import Job
from tests.simulator import write_job


@pytest.fixture(scope="module")
def later(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("later")
    write_job(folder, "input_starvation", ranks=2, steps=3)
    return str(folder)


def compared(board: Dashboard) -> list[str]:
    tabs = [each for each in board._spec["tabs"] if each["name"] == "compare"]
    return [board._spec["names"][place - 1] for tab in tabs for place in tab["panels"]]


def test_without_a_second_job_there_is_no_such_tab(loaded: Job):
    with pytest.raises(ParameterError, match="got 'compare'"):
        Dashboard(loaded, tab="compare")


def test_every_finding_says_what_became_of_it(loaded: Job, later: str):
    board = Dashboard(loaded, compare=later, tab="compare")
    assert compared(board) == [*OF_TWO_JOBS]
    panel = board.panels["compared_findings"]
    found = compare_findings(loaded, board.compare)
    assert panel.result.finding == found.finding
    rows = panel._view["findings"]
    assert [row["price"] == "gone" for row in rows] == [
        each.outcome == "gone" for each in found.findings
    ]
    for row, each in zip(rows, found.findings, strict=True):
        assert row["sentence"].lower().startswith(each.words)
        assert row["show"]["finding"] == list(board.findings).index(each.first)
    names = [bar.name for bar in panel.figures["Where the time of both goes"].data]
    assert names == board.table["class"].tolist()[:-1]
    assert board.panels["compare"].result.first == loaded.name


def test_a_second_job_can_be_given_and_taken_away(loaded: Job, later: str, tmp_path):
    board = Dashboard(loaded, output_dir=tmp_path)
    board.tab = "kernels"
    board.compare = later
    assert board.tab == "compare"
    made = [board.panels[name] for name in OF_TWO_JOBS]
    assert compared(board) == [*OF_TWO_JOBS]
    assert [each.output_dir for each in made] == [tmp_path] * 2
    assert board.get_state()["_panels"][-2:] == [f"anywidget:{each.model_id}" for each in made]
    board.compare = None
    assert (compared(board), board.tab) == ([], "ranks")
    assert [each.comm for each in made] == [None, None]
    assert len(board._panels) == 1 + len(board.panels)
