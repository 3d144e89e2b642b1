"""Figures of the roofline: points under the roof, and bars that add up to the GPU time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hta_widgets.analyses.roofline import roofline
from hta_widgets.figures import roofline as figures
from hta_widgets.figures.selected_operators import SelectedOperators
from tests.analyses.test_roofline import H100, launch, opened, operator, products


@pytest.fixture
def result(tmp_path):
    small = [operator(600, 10, "aten::mm", [[8, 8], [8, 8]]), *launch(601, 3, 98, at=6000)]
    moving = [operator(700, 10, "aten::add", [[2**20], [2**20]]), *launch(701, 9, 99, at=7000)]
    return roofline(opened(tmp_path, [*products(), *small, *moving], deviceProperties=H100))


def test_points_lie_under_the_roof(result):
    figure = figures.roofline(result.operators, result.peak).figure()
    (roof,) = [each for each in figure.data if each.mode == "lines"]
    points = [each for each in figure.data if each.mode == "markers"]
    assert roof.name == "Peak of bf16: 989 TFLOP/s, 3,350 GB/s"
    assert {each.name for each in points} == {"Memory-bound", "Launch-bound"}
    for each in points:
        allowed = np.minimum(989, np.array(each.x) * 3.35)
        assert (np.array(each.y) <= allowed).all()
        assert each.meta == {"select": "operators", "also": "shapes"}
        assert [row[0] for row in each.customdata] == ["aten::mm"] * len(each.x)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    low, high = figure.layout.xaxis.range
    assert all(low < np.log10(x) < high for each in points for x in each.x)
    assert max(roof.y) == 989


def test_types_with_one_peak_share_a_roof_and_its_name(result):
    """The roofs of bf16 and fp16 lay on each other, and looked alike in the legend."""
    half = result.operators.assign(dtype="fp16")
    other = result.operators.assign(dtype="fp32")
    figure = figures.roofline(pd.concat([result.operators, half, other]), result.peak).figure()
    roofs = {each.name.partition(":")[0]: each for each in figure.data if each.mode == "lines"}
    assert roofs.keys() == {"Peak of bf16 and fp16", "Peak of fp32"}
    assert len({each.line.dash for each in roofs.values()}) == 2


def test_bars_add_up_to_the_gpu_time(result):
    figure = figures.operator_times(result.operators).figure()
    assert {each.name for each in figure.data} == {"Ideal", "Excess"}
    lengths = np.sum([each.x for each in figure.data], axis=0)
    assert lengths.tolist() == pytest.approx((result.operators["gpu_ns"] / 1000).tolist())
    assert "of the peak" in figure.data[0].hovertext[0]
    assert len(figures.operator_times(result.operators, num_operators=1).data[0]["y"]) == 1


def test_selected_operators_keep_their_colour(result):
    place = result.operators["operator"].tolist().index("aten::add")
    shape = result.operators["input_dims"].iloc[place]
    for selected in (
        SelectedOperators(("aten::add",)),
        SelectedOperators(("aten::add", "aten::mm"), (shape,)),
        SelectedOperators((), (shape,)),
    ):
        figure = figures.operator_times(result.operators, selected=selected).figure()
        assert tuple(figure.data[0].selectedpoints) == (place,)


def test_rates_where_no_peak_is_known(tmp_path):
    result = roofline(opened(tmp_path, products()))
    figure = figures.operator_rates(result.operators).figure()
    assert list(figure.data[0].x) == result.operators["tflops"].tolist()
    times = figures.operator_times(result.operators).figure()
    assert [each.name for each in times.data] == ["Peak not known"]
