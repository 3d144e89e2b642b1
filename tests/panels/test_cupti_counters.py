from __future__ import annotations

import pytest

from hta_widgets.panels import CuptiCountersPanel
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_cupti_counters import measured, stepwise
from tests.kineto_text import call, host


@pytest.fixture
def panel(tmp_path):
    events = [host(0, 9, "outer"), host(1, 7, "inner"), call(2, 1, 1)]
    events += [measured(50, a_none=0, b_inst=4)]
    return CuptiCountersPanel(open_job(tmp_path, [events]))


def test_it_begins_with_a_counter_that_counted(panel):
    assert panel.counter == "b.inst"
    assert panel._spec["controls"][1]["options"] == [("a.none", "a.none"), ("b.inst", "b.inst")]
    assert panel.table.to_dict("records") == [
        {"operator": "outer", "counter": "b.inst", "kernels": 1, "sum": 4.0, "mean": 4.0}
    ]


def test_parameters(panel):
    panel.level = "bottom_level_op"
    panel.statistic = "mean"
    assert panel.table["operator"].tolist() == ["inner"]
    (figure,) = panel.figures.values()
    assert figure.layout.xaxis.title.text == "b.inst, mean"
    panel.counter = "c"
    assert panel._view["empty"] == "No kernel on the selected ranks has the counter 'c'."


def test_without_counters_it_says_how_to_get_them(tmp_path):
    panel = CuptiCountersPanel(open_job(tmp_path, [[host(0, 1, "op")]]))
    assert "profiler_metrics" in panel._view["empty"]
    assert panel._view["error"] is None


def test_it_follows_the_selected_steps(tmp_path):
    panel = CuptiCountersPanel(stepwise(tmp_path), level="bottom_level_op")
    panel.selection.steps = (1,)
    assert panel.result.ranges["name"].tolist() == ["k1"]
    assert panel._view["time"] == "step 1"
    panel.selection.window_ns = (0, 50_000)
    assert panel._view["empty"] == "No measured kernel was launched in step 1, 0.0–50.0 µs."
