from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.roofline import roofline
from hta_widgets.panels import RooflinePanel
from tests.analyses.test_roofline import H100, launch, opened, operator, products
from tests.kineto_text import host
from tests.panels.fakes import send

ROOF = "Roofline by operator shape"
RATES = "Operator rates by shape (the peak of the GPU is unknown)"
TIMES = "GPU time of operators by shape"


def test_the_tables_are_those_of_the_analysis(tmp_path):
    job = opened(tmp_path, products(), deviceProperties=H100)
    panel, expected = RooflinePanel(job), roofline(job)
    for listed in ("operators", "uncounted", "devices"):
        send(panel, listed=listed)
        pd.testing.assert_frame_equal(panel.table, getattr(expected, listed))
    assert list(panel.figures) == [ROOF, TIMES]


def test_what_is_drawn_depends_on_what_is_known(tmp_path):
    for name, metadata, figures in (
        ("known", {"deviceProperties": H100}, [ROOF, TIMES]),
        ("unknown", {}, [RATES, TIMES]),
    ):
        (tmp_path / name).mkdir()
        panel = RooflinePanel(opened(tmp_path / name, products(), **metadata))
        assert list(panel.figures) == figures
    moving = [operator(0, 9, "aten::add", [[64], [64]]), *launch(1, 9, 1)]
    (tmp_path / "moving").mkdir()
    assert list(RooflinePanel(opened(tmp_path / "moving", moving)).figures) == [TIMES]


def test_parameters_and_selection(tmp_path):
    more = [operator(700, 9, "aten::add", [[64], [64]]), *launch(701, 9, 99, at=9000)]
    panel = RooflinePanel(opened(tmp_path, [*products(), *more], deviceProperties=H100))
    assert len(panel.figures[TIMES].layout.yaxis.ticktext) == 2
    panel.selection.operators = ("aten::add",)
    assert tuple(panel.figures[TIMES].data[0].selectedpoints) == (1,)
    bars = panel.figures[TIMES].data[0]
    assert bars.meta == {"select": "operators", "also": "shapes"}
    assert [*bars.customdata[1]] == ["aten::add", "[[64], [64]]"]
    panel.selection.shapes = ("[[64], [32]]",)
    assert not panel.figures[TIMES].data[0].selectedpoints
    panel.selection.shapes = ("[[64], [64]]",)
    assert tuple(panel.figures[TIMES].data[0].selectedpoints) == (1,)
    send(panel, num_operators=1)
    assert len(panel.figures[TIMES].layout.yaxis.ticktext) == 1


def test_no_shapes_are_said(tmp_path):
    panel = RooflinePanel(opened(tmp_path, [host(0, 9, "aten::mm"), *launch(1, 9, 1)]))
    assert "record_shapes=True" in panel._view["empty"]


def test_shapes_are_written_short_and_on_one_line(tmp_path):
    panel = RooflinePanel(opened(tmp_path, products(), layout="indent4"))
    assert list(panel.figures[TIMES].layout.yaxis.ticktext) == ["aten::mm 1024×512 · 512×2048"]
    assert panel.table["input_dims"].tolist() == ["[[1024, 512], [512, 2048]]"]
