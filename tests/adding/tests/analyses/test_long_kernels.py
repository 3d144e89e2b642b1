"""Long kernels, in the package as it is with them."""

from __future__ import annotations

import pytest

from hta_widgets import open_trace
from hta_widgets.analyses import LongKernels, long_kernels
from hta_widgets.panels import Dashboard, LongKernelsPanel, every
from tests.kineto_text import kernel, write


@pytest.fixture
def job(tmp_path):
    for rank in range(2):
        events = [kernel(20 * i, 5 * (i + 1)) for i in range(3 + rank)]
        write(tmp_path / f"rank{rank}.json", events)
    return open_trace(tmp_path, progress=False)


def test_its_numbers(job):
    result = long_kernels(job, cutoff=4)
    assert isinstance(result, LongKernels)
    assert result.ranks.to_dict("list") == {"rank": [0, 1], "long": [3, 4]}


def test_its_panel(job):
    panel = LongKernelsPanel(job, ranks=[1])
    assert panel.result.ranks.to_dict("list") == {"rank": [1], "long": [2]}
    panel.selection.ranks = []
    assert panel.table["long"].tolist() == [1, 2]
    assert panel.figures["Long kernels"].data[0].y.tolist() == [1, 2]
    assert panel.result.finding == "3 kernels last longer than 10 µs."


def test_its_control(job):
    panel = LongKernelsPanel(job)
    _, slider = panel._spec["controls"]
    assert (slider["kind"], slider["name"], slider["label"]) == ("slider", "cutoff", "Longer than")
    assert (slider["min"], slider["max"], slider["unit"]) == (0, 500, "µs")
    panel.set_state({"cutoff": 4, "_req": 1})
    assert panel._view["rev"] == 1
    assert panel._view["finding"] == "7 kernels last longer than 4 µs."
    with pytest.raises(TypeError, match="no parameter cutof; it has"):
        LongKernelsPanel(job, cutof=3)


def test_it_is_on_a_dashboard_in_its_tab(job):
    board = Dashboard(job)
    assert every.PANELS["long_kernels"] is LongKernelsPanel
    names = board._spec["names"]
    [tab] = [each for each in board._spec["tabs"] if each["name"] == "kernels"]
    assert names[tab["panels"][-1] - 1] == "long_kernels"
    assert board.panels["long_kernels"].result.ranks["long"].tolist() == [1, 2]
