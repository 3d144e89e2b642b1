from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_owners.sums import owners_by_path
from hta_widgets.panels import Dashboard, IdleOwnersPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write
from tests.panels.fakes import send

CAUSES = "Causes of the idle time of each GPU"
CALLS = "Calls with the most idle time"
LINES = "Python lines with the most idle time"


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = IdleOwnersPanel(loaded, ranks=[1, 3])
    expected = idle_owners(loaded, [1, 3]).in_budget()
    pd.testing.assert_frame_equal(panel.result.owners, expected.owners)
    pd.testing.assert_frame_equal(panel.table, owners_by_path(expected.owners, expected.paths))
    panel.listed = "causes"
    pd.testing.assert_frame_equal(panel.table, expected.causes)
    panel.listed = "drains"
    pd.testing.assert_frame_equal(panel.table, expected.drains)


def test_a_linked_panel_draws_all_gpus_and_the_owners_of_the_selected_ranks(loaded: Job):
    panel = IdleOwnersPanel(loaded)
    panel.ranks = [2]
    assert all(len(bar.x) == 4 for bar in panel.figures[CAUSES].data)
    assert all(tuple(bar.selectedpoints) == (2,) for bar in panel.figures[CAUSES].data)
    assert set(panel.table["rank"]) == {2}
    panel.ranks = []


def test_parameters(loaded: Job):
    panel = IdleOwnersPanel(loaded)
    assert "%" in panel.figures[LINES].layout.xaxis.title.text
    send(panel, num_owners=2, as_percent=False)
    assert "%" not in panel.figures[LINES].layout.xaxis.title.text
    assert len(panel.figures[LINES].layout.yaxis.ticktext) == 2


def test_owners_by_path(tmp_path):
    frames = [host(place, 200 - place, f"f{place}", cat="python_function") for place in range(6)]
    launch = [kernel(0, 10), call(70, 20, 1), kernel(90, 10, correlation=1)]
    job = open_trace(write(tmp_path / "rank-0.json", [*frames, *launch]), progress=False)
    rows = IdleOwnersPanel(job).table.to_dict("records")
    assert [(row["cause"], row["path"], row["idle_ns"]) for row in rows] == [
        ("host_code", "… › f2 › f3 › f4 › f5", 60_000),
        ("launching", "… › f3 › f4 › f5 › cudaLaunchKernel", 20_000),
    ]
    assert sum(row["idle_percent"] for row in rows) == pytest.approx(100)


def test_lines_of_python(tmp_path):
    """Of 150 µs idle, 140 belong to a module of a model: PyTorch's own frames are no lines."""
    frames = {
        "train.py(8): main": (0, 200),
        "models/net.py(30): forward": (20, 130),
        "torch/nn/modules/linear.py(114): forward": (30, 100),
        "functools.py(7): wrapped": (35, 90),
        "<built-in function linear>": (40, 80),
    }
    events = [host(*at, name, cat="python_function") for name, at in frames.items()]
    launches = [kernel(0, 10), call(140, 5, 1), kernel(160, 10, correlation=1)]
    job = open_trace(
        write(tmp_path / "rank-0.json", [*events, host(45, 60, "aten::mm"), *launches]),
        progress=False,
    )
    panel = IdleOwnersPanel(job, listed="lines")
    line = "models/net.py(30): forward"
    ns = panel.table.groupby("line")["idle_ns"].sum().to_dict()
    assert ns == {line: 140_000, "train.py(8): main": 10_000}
    assert sum(ns.values()) == panel.result.devices["idle_ns"].sum()
    assert panel.table["idle_percent"].sum() == pytest.approx(100)
    assert list(panel.figures[LINES].layout.yaxis.ticktext) == [line, "train.py(8): main"]
    assert panel.result.finding.endswith(f"; the line of Python with the most is {line} (140 µs).")
    panel.by = "call"
    assert "aten::mm" in panel.figures[CALLS].layout.yaxis.ticktext


def test_a_click_on_a_call_selects_what_it_launches(loaded: Job):
    board = Dashboard(loaded)
    panel = board.panels["idle_owners"]
    panel.by = "call"
    bars = panel.figures[CALLS].data
    assert {each.meta["select"] for each in bars} == {"operators"}
    names = [each[0] for each in bars[0].customdata]
    place = next(at for at, name in enumerate(names) if (name or "").startswith("aten::"))
    board.selection.operators = (names[place],)
    chosen = panel.figures[CALLS].data
    assert {tuple(each.selectedpoints) for each in chosen} == {(place,)}
    assert len(board.events) < len(Dashboard(loaded.only(loaded.ranks)).events)
    board.selection.operators = ()


def test_no_gpu_work_is_said(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    panel = IdleOwnersPanel(job)
    assert panel._view["empty"] == "No GPU work was recorded on the selected ranks."


def test_no_idle_time_is_said(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [kernel(0, 10)]), progress=False)
    assert IdleOwnersPanel(job)._view["empty"] == "The GPUs are never idle."


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (39, "The GPU is idle for 3 µs of 101 µs (2.97 % of the analysed time)."),
        (38, "Of 3 µs idle (3 % of the GPU span), "),
    ],
)
def test_how_little_the_gpu_is_idle_is_said(tmp_path, length, said):
    launches = [call(0, 1, 1), call(60, 1, 2)]
    kernels = [kernel(1, 59, correlation=1), kernel(63, length, correlation=2)]
    trace = write(tmp_path / "rank-0.json", [*launches, *kernels])
    panel = IdleOwnersPanel(open_trace(trace, progress=False))
    assert panel._view["finding"].startswith(said)
