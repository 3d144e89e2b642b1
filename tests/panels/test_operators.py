from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.operators import operators
from hta_widgets.panels import OperatorsPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_modules import NET
from tests.kineto_text import call, host, kernel, write
from tests.panels.fakes import send

MOST_GPU = "Operators with the most self GPU time"


@pytest.fixture
def small(tmp_path):
    events = [
        host(0, 100, "Optimizer.step#SGD.step", cat="user_annotation"),
        host(10, 10, "aten::mul_"),
        call(12, 2, 1),
        kernel(200, 30, correlation=1),
        host(110, 10, "<b>aten::mm</b>"),
        call(112, 2, 2),
        kernel(230, 70, correlation=2),
        host(130, 5, "aten::mul_"),
        call(131, 2, 3),
        kernel(300, 10, correlation=3),
    ]
    return open_trace(write(tmp_path / "rank-0.json", events), progress=False)


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = OperatorsPanel(loaded, ranks=[1, 3])
    expected = operators(loaded, [1, 3])
    pd.testing.assert_frame_equal(panel.result.operators, expected.operators)
    pd.testing.assert_frame_equal(panel.table, expected.operators)
    panel.by, panel.phase = "shape", "backward"
    expected = operators(loaded, [1, 3], by="shape", phase="backward")
    pd.testing.assert_frame_equal(panel.table, expected.operators)


def test_bars_are_the_times_by_phase(small):
    panel = OperatorsPanel(small)
    optimizer, other = panel.figures[MOST_GPU].data
    assert (optimizer.name, other.name) == ("Optimizer", "Other")
    assert (list(optimizer.x), list(other.x)) == ([0, 30], [70, 10])
    names = panel.figures[MOST_GPU].layout.yaxis.ticktext
    assert list(names) == ["&lt;b&gt;aten::mm&lt;/b&gt;", "aten::mul_"]
    assert [item[0] for item in other.customdata] == ["<b>aten::mm</b>", "aten::mul_"]
    assert other.meta == {"select": "operators"}
    assert "All phases: 40 µs in 2 calls, 36.4 % of 110 µs GPU time" in other.hovertext[1]


def test_the_weight_orders_bars_and_table_and_is_that_of_the_sentence(small):
    panel = OperatorsPanel(small, num_operators=1)
    assert panel._view["finding"] == panel.result.finding
    send(panel, weight="cpu")
    assert panel._view["finding"].startswith("Of 25 µs of CPU time, aten::mul_ takes the most: ")
    (figure,) = panel.figures.values()
    assert list(figure.layout.yaxis.ticktext) == ["aten::mul_"]
    assert panel.table["cpu_self_ns"].is_monotonic_decreasing
    send(panel, weight="idle")
    assert panel.table["idle_ns"].is_monotonic_decreasing
    assert "GPU idle time" in panel._view["finding"]


def test_a_row_selects_the_operator_and_its_shape(loaded: Job):
    panel = OperatorsPanel(loaded, by="shape")
    selects = {each["name"]: each["select"] for each in panel._view["table"]["columns"]}
    assert (selects["operator"], selects["input_dims"]) == ("operators", "shapes")
    bar = panel.figures[MOST_GPU].data[0]
    assert bar.meta == {"select": "operators", "also": "shapes"}
    names = [tuple(item) for item in bar.customdata]
    panel.selection.set(operators=[names[2][0]], shapes=[names[2][1]])
    assert tuple(panel.figures[MOST_GPU].data[0].selectedpoints) == (2,)


def test_the_selected_operator_stands_out(small):
    panel = OperatorsPanel(small)
    panel.selection.operators = ["aten::mul_"]
    assert all(tuple(bar.selectedpoints) == (1,) for bar in panel.figures[MOST_GPU].data)
    panel.selection.operators = []
    assert all(bar.selectedpoints is None for bar in panel.figures[MOST_GPU].data)


def test_the_selected_modules_and_phase_count(tmp_path):
    panel = OperatorsPanel(open_job(tmp_path, [NET]))
    assert set(panel.table["operator"]) >= {"aten::linear", "MmBackward0"}
    panel.selection.modules = ["Net › Linear"]
    assert panel.table["operator"].tolist() == ["MmBackward0", "aten::linear"]
    panel.selection.phase = "forward"
    assert panel.table["operator"].tolist() == ["aten::linear"]
    panel.phase = "backward"
    assert panel.table["operator"].tolist() == ["MmBackward0"]
    panel.selection.modules = ["Net_0 › Linear_1"]
    expected = "No operators run in the backward phase in the selected modules."
    assert panel._view["empty"] == expected


def test_nothing_is_explained(small, tmp_path):
    panel = OperatorsPanel(small, phase="forward")
    said = (
        "The forward phase cannot be told: no modules were recorded (with_stack=True records them)."
    )
    assert panel._view["empty"] == f"{said} Recipes: docs/recording.md."
    no_optimizer = write(tmp_path / "a.json", [host(0, 9, "aten::mm"), call(1, 2, 1), kernel(9, 5)])
    panel = OperatorsPanel(open_trace(no_optimizer, progress=False), phase="optimizer")
    assert panel._view["empty"] == "No operators run in the optimizer phase."
    launches = write(tmp_path / "d.json", [call(1, 2, 1), kernel(9, 5, correlation=1)])
    panel = OperatorsPanel(open_trace(launches, progress=False), phase="optimizer")
    expected = "The optimizer phase cannot be told: no operators were recorded."
    assert panel._view["empty"] == expected
    none = OperatorsPanel(open_trace(write(tmp_path / "b.json", [kernel(0, 5)]), progress=False))
    expected = "No operators or launch calls were recorded on the selected ranks."
    assert none._view["empty"] == expected
    cpu_only = write(tmp_path / "c.json", [host(0, 5, "aten::mm")])
    panel = OperatorsPanel(open_trace(cpu_only, progress=False))
    assert panel.weight == "cpu"
    assert panel._view["empty"] is None
    panel.weight = "gpu"
    assert panel._view["empty"] == "No GPU time belongs to an operator: show CPU time."


def test_launch_calls_stand_in_for_operators(tmp_path):
    events = [call(0, 5, 1), kernel(10, 4, correlation=1)]
    panel = OperatorsPanel(open_trace(write(tmp_path / "a.json", events), progress=False))
    assert panel.table["operator"].tolist() == ["cudaLaunchKernel"]
    assert panel._view["empty"] is None


def test_rows_of_one_name_have_labels_that_differ(tmp_path):
    frames = [host(0, 145, "a_long_folder/train.py(7): step", cat="python_function")]
    frames += [
        host(start, 40, f"model.py({start}): forward", cat="python_function")
        for start in (0, 50, 100)
    ]
    shapes = ([[64, 128], []], [[64, 256], []], [[]])
    launches = []
    for number, dims in enumerate(shapes):
        arguments = {"Input Dims": dims, "Input type": ["float", "GenericList"]}
        launches += [
            {**host(50 * number + 1, 20, "aten::mm"), "args": arguments},
            call(50 * number + 2, 2, number),
            kernel(200 + 50 * number, 30 - number, correlation=number),
        ]
    path = write(tmp_path / "rank-0.json", [*frames, *launches])
    panel = OperatorsPanel(open_trace(path, progress=False), by="shape")
    labels = panel.figures[MOST_GPU].layout.yaxis.ticktext
    assert [label.startswith("aten::mm · ") for label in labels] == [True] * 3
    assert labels[0] == "aten::mm · 64×128 float"
    assert "64×256" in labels[1]
    panel.by = "stack"
    labels = panel.figures[MOST_GPU].layout.yaxis.ticktext
    assert list(labels) == [f"aten::mm · model.py({start}): forward" for start in (0, 50, 100)]
