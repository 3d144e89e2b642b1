from __future__ import annotations

from hta_widgets.panels import CriticalPathPanel
from hta_widgets.trace.job import Job
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, kernel


def test_that_the_path_is_of_all_ranks_is_said_if_some_are_selected(loaded: Job):
    panel = CriticalPathPanel(loaded)
    finding = panel._view["finding"]
    assert finding == panel.result.finding
    panel.ranks = [1]
    assert panel.result.finding == finding
    said = "The path is that of all ranks, not only of the selected ones."
    assert panel._view["finding"] == f"{said} {finding}"
    panel.ranks = []
    alone = CriticalPathPanel(loaded, ranks=[1])  # linked to no other panel
    assert alone._view["finding"] == alone.result.finding


def test_why_no_call_is_worth_anything_in_a_balanced_job(tmp_path):
    events = [call(0, 5, 1), kernel(10, 900, correlation=1), call(20, 5, 2)]
    events += [kernel(911, 5, correlation=2)]
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    alone = CriticalPathPanel(open_job(one, [events])).result.finding
    assert "the costliest single kernel call is " in alone
    balanced = CriticalPathPanel(open_job(two, [events, events])).result.finding
    assert balanced.endswith("by 1 %, as another path is almost as long.")
