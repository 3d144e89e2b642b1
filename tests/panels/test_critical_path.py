from __future__ import annotations

from hta_widgets.panels import CriticalPathPanel
from hta_widgets.trace.job import Job


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
