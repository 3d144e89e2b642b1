from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.kernel_sequences import (
    kernel_sequences,
    operators_by_gpu_time,
    operators_to_offer,
    suggested_operator,
)
from hta_widgets.errors import ParameterError
from hta_widgets.panels import KernelSequencesPanel
from hta_widgets.trace.job import Job
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, host, kernel
from tests.panels.fakes import send


def test_it_begins_with_an_operator_worth_a_look(loaded: Job):
    panel = KernelSequencesPanel(loaded)
    assert panel.operator_name == suggested_operator(loaded)
    assert panel._view["error"] is panel._view["empty"] is None
    expected = kernel_sequences(loaded, 0, operator_name=panel.operator_name, whole_name=True)
    pd.testing.assert_frame_equal(panel.result.patterns, expected.patterns)
    assert len(panel.table) == len(expected.patterns)


def test_it_looks_at_the_first_rank_selected(loaded: Job):
    panel = KernelSequencesPanel(loaded, ranks=[2, 3])
    assert panel.result.rank == 2


def test_parameters(loaded: Job):
    panel = KernelSequencesPanel(loaded, operator_name="aten::", whole_name=False, ranks=[0])
    with panel.hold():
        panel.min_pattern_len = 1
        panel.top_k = 2
    (figure,) = panel.figures.values()
    assert len(figure.data[0].y) == 2
    assert len(panel.table) > 2
    assert "no sequence of at least 100,000" in send(panel, min_pattern_len=100_000)["empty"]
    assert send(panel, operator_name="")["error"].startswith("operator_name is empty")


def test_operators_are_offered_by_their_gpu_time(loaded: Job):
    control = KernelSequencesPanel(loaded)._spec["controls"][1]
    offered = [value for _, value, _ in control["options"]]
    assert offered == operators_to_offer(loaded)["name"].head(200).tolist()
    assert "aten::linear" in offered


def test_modules_are_offered_but_no_other_python_frames(tmp_path):
    events = []
    for number, name in enumerate(["nn.Module: Linear_0", "train.py(3): step"]):
        ts = 20 * number
        events += [host(ts, 9, name, cat="python_function"), call(ts + 1, 1, number + 1)]
        events += [kernel(ts + 5, 1, correlation=number + 1)]
    job = open_job(tmp_path, [events])
    assert operators_by_gpu_time(job)["kind"].tolist() == ["python", "python"]
    assert operators_to_offer(job)["name"].tolist() == ["nn.Module: Linear_0"]
    assert suggested_operator(job) == "nn.Module: Linear_0"


def test_the_overlay_has_the_sequences_shown(tmp_path):
    events = [host(0, 9, "op"), call(1, 1, 1), kernel(5, 1, correlation=1)]
    panel = KernelSequencesPanel(open_job(tmp_path, [events]), min_pattern_len=1)
    out = tmp_path / "out"
    out.mkdir()
    path = panel.write_overlay(out)
    assert path == out / "overlaid_rank-0.json"
    assert path.read_text().count('"Patterns"') == 3
    panel.min_pattern_len = 2
    with pytest.raises(ParameterError, match="no pattern to mark"):
        panel.write_overlay(out)


def test_without_gpu_work_it_says_so(tmp_path):
    panel = KernelSequencesPanel(open_job(tmp_path, [[host(0, 1, "op")]]))
    assert panel._view["empty"] == "No call on rank 0 matches 'aten::linear'."
