from __future__ import annotations

import json

import pandas as pd
import pytest

from hta_widgets.analyses.flame import collapsed_stacks, flame
from hta_widgets.errors import ParameterError, WriteError
from hta_widgets.panels import FlamePanel
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_modules import NET
from tests.kineto_text import call, host, kernel, write
from tests.panels.fakes import send
from tests.trace.test_memory_events import memory

MODULE = ("nn.Module: Net_0", "nn.Module: Linear_0")


def sent(panel):
    return json.loads(panel._flame)


def test_the_result_is_that_of_the_analysis(tmp_path):
    job = open_job(tmp_path, [NET, NET[:2]])
    panel = FlamePanel(job, weight="idle")
    expected = flame(job, 0, weight="idle")
    pd.testing.assert_frame_equal(panel.result.nodes, expected.nodes)
    assert panel.table["own_ns"].sum() == expected.total_ns
    assert panel.table["own_ns"].is_monotonic_decreasing
    assert sent(panel)["all"] == expected.total_ns
    assert panel.figures == {}


def test_the_browser_asks_for_a_root(tmp_path):
    panel = FlamePanel(open_job(tmp_path, [NET]))
    assert sent(panel)["root"] == []
    send(panel, root=list(MODULE))
    assert sent(panel)["root"] == list(MODULE)
    assert panel.result.nodes["name"].iloc[0] == MODULE[-1]
    assert panel.root == MODULE


def test_a_root_that_is_not_there_gives_way_to_what_is_around_it(tmp_path):
    panel = FlamePanel(open_job(tmp_path, [NET]), root=(*MODULE, "aten::linear"))
    assert panel.result.root == (*MODULE, "aten::linear")
    panel.root = (*MODULE, "aten::mm", "inner")
    assert panel.result.root == MODULE
    panel.root = ("nothing",)
    assert panel.result.root == ()
    send(panel, root=[3])
    assert "root must be texts" in panel._view["error"]


def test_callers_and_callees_of_a_name(tmp_path):
    panel = FlamePanel(open_job(tmp_path, [NET]))
    send(panel, sandwich="cudaLaunchKernel", root=[])
    assert panel.result.sandwich == "cudaLaunchKernel"
    assert sent(panel)["sandwich"] == "cudaLaunchKernel"
    assert not panel.result.callers.empty
    assert panel.table["own_ns"].sum() == panel.result.nodes["total_ns"].iloc[0]
    panel.root = ("cudaLaunchKernel", "kernel")
    assert panel.result.callers.empty
    assert panel.result.nodes["name"].tolist() == ["kernel"]
    panel.sandwich = "nothing"
    assert (panel.result.sandwich, panel.result.root) == ("", ())


def test_it_shows_the_rank_that_is_picked_and_follows_a_selection_of_others(tmp_path):
    job = open_job(tmp_path, [NET, [*NET, kernel(500, 7)], [*NET, kernel(500, 9)]])
    panel = FlamePanel(job)
    [picker] = (each for each in panel._spec["controls"] if each["name"] == "rank")
    assert picker["options"] == [("0", 0), ("1", 1), ("2", 2)]
    send(panel, rank=2)
    assert (panel.result.total_ns, sent(panel)["all"]) == (80_000, 80_000)
    panel.ranks = [0, 2]
    assert panel.rank == 2
    panel.ranks = [1]
    assert (panel.rank, panel.result.total_ns) == (1, 78_000)
    assert FlamePanel(job, ranks=[1, 2]).rank == 1
    send(panel, rank=7)
    assert "rank 7 is not in this job" in panel._view["error"]


def test_its_boxes_and_its_largest_names_are_in_the_static_page(tmp_path):
    panel = FlamePanel(open_job(tmp_path, [NET]))
    summary = panel.summary()
    finding, picture = (summary.index(part) for part in (panel.result.finding, "<img"))
    assert finding < picture < summary.index("<table")
    assert "<img" not in panel.summary(limit=1000)
    assert "Flame graph" in summary
    assert "<td>kernel</td>" in summary


def test_stacks_for_other_tools(tmp_path):
    job = open_job(tmp_path, [NET])
    panel = FlamePanel(job, weight="cpu")
    assert panel.buttons["write_collapsed_stacks"].label == "Export folded stacks"
    target = panel.write_collapsed_stacks(tmp_path)
    assert target == tmp_path / "rank-0-cpu.collapsed"
    assert target.read_text() == collapsed_stacks(job, 0, weight="cpu")
    panel.output_dir = tmp_path / "missing"
    with pytest.raises(WriteError):
        panel.write_collapsed_stacks()
    panel.weight = "bytes"
    with pytest.raises(ParameterError, match="No allocations were recorded"):
        panel.write_collapsed_stacks(tmp_path)
    assert not [*tmp_path.glob("*bytes*")]


def test_memory_has_a_unit_of_its_own(tmp_path_factory):
    events = [*NET, memory(12, 4096), memory(13, -4096)]
    job = open_job(tmp_path_factory.mktemp("memory"), [events])
    panel = FlamePanel(job, weight="bytes")
    assert (sent(panel)["unit"], sent(panel)["all"]) == ("bytes", 4096)
    assert "own_bytes" in panel.table
    empty = FlamePanel(open_job(tmp_path_factory.mktemp("none"), [NET]), weight="bytes")
    assert "profile_memory=True" in empty._view["empty"]


def test_nothing_recorded_is_said(tmp_path):
    panel = FlamePanel(open_job(tmp_path, [NET[:2]]))
    assert panel.weight == "cpu"
    assert panel._view["empty"] is None
    panel.weight = "gpu"
    assert panel._view["empty"] == "No GPU work was recorded on this rank: show CPU time."
    assert sent(panel)["all"] == 0


def test_boxes_show_what_kernels_do(tmp_path):
    name = "ampere_sgemm_128x64_nn"
    events = [host(0, 9, "aten::mm"), call(1, 1, 1), kernel(3, 5, name=name, correlation=1)]
    drawn = sent(FlamePanel(write(tmp_path / "rank-0.json", events)))
    labels = dict(zip(drawn["names"], drawn["labels"], strict=True))
    assert (labels[name], labels["aten::mm"]) == ("GEMM 128×64 fp32 nn · cublas", "aten::mm")
