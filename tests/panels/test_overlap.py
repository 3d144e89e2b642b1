from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.overlap import overlap
from hta_widgets.panels import OverlapPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import kernel, write


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = OverlapPanel(loaded, ranks=[1, 3])
    pd.testing.assert_frame_equal(panel.result.ranks, overlap(loaded, [1, 3]).ranks)
    of_graphs = ["cuda_graph_time_ns", "beside_graph_ns"]
    assert not panel.result.ranks[of_graphs].any(axis=None)  # columns of zeros are not shown
    pd.testing.assert_frame_equal(panel.table, panel.result.ranks.drop(columns=of_graphs))


def test_a_linked_panel_draws_all_ranks_and_fades_the_others(loaded: Job):
    panel = OverlapPanel(loaded)
    panel.ranks = [0, 2]
    (figure,) = panel.figures.values()
    assert all(tuple(bar.selectedpoints) == (0, 2) for bar in figure.data)
    panel.ranks = []


def test_without_communication_there_is_nothing_to_show(tmp_path):
    write(tmp_path / "rank0.json", [kernel(0, 10, name="gemm")])
    panel = OverlapPanel(open_trace(tmp_path, progress=False))
    assert panel._view["empty"] == panel._view["finding"]
    assert "kernel_rules" in panel._view["finding"]
    assert panel.figures == {}
