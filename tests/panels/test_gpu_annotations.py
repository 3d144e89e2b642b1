from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.gpu_annotations import gpu_annotations
from hta_widgets.panels import AnnotationsPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.test_gpu_annotations import two_calls
from tests.analyses.test_idle_owners import annotation
from tests.kineto_text import write
from tests.panels.fakes import send


@pytest.fixture
def job(tmp_path):
    return open_trace(write(tmp_path / "rank-0.json", two_calls()), progress=False)


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = AnnotationsPanel(loaded, ranks=[1, 3])
    expected = gpu_annotations(loaded, [1, 3])
    pd.testing.assert_frame_equal(panel.table, expected.annotations)
    assert panel.result.finding == expected.finding


def test_bars(job):
    panel = AnnotationsPanel(job)
    (figure,) = panel.figures.values()
    own, inside = figure.data
    assert (own.meta, [*own.customdata[0]]) == ({"select": "operators"}, ["forward"])
    panel.selection.operators = ("loss",)
    assert [tuple(each.selectedpoints) for each in panel.figures.popitem()[1].data] == [(1,), (1,)]
    panel.selection.operators = ()
    assert list(figure.layout.yaxis.ticktext) == ["forward", "loss"]
    assert (list(own.x), list(inside.x)) == ([20, 30], [30, 0])
    assert "2 pieces of GPU work, 50 µs; GPU busy for 40 µs of a span of 40 µs" in own.hovertext[0]
    send(panel, on="cpu", num_annotations=1)
    ((name, figure),) = panel.figures.items()
    assert name == "User annotations with the most CPU time"
    assert list(figure.data[0].x) == [50]


def test_nothing_is_explained(tmp_path):
    empty = open_trace(write(tmp_path / "a.json", two_calls()[2:]), progress=False)
    expected = "No user annotations were recorded on the selected ranks."
    assert AnnotationsPanel(empty)._view["empty"] == expected
    idle = open_trace(write(tmp_path / "b.json", [annotation(0, 5, "a")]), progress=False)
    assert AnnotationsPanel(idle)._view["empty"] is None
    panel = AnnotationsPanel(idle, on="gpu")
    assert panel._view["empty"] == "No GPU time belongs to a user annotation."
