"""Figures of the owners of idle time."""

from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_owners.sums import causes_by_device, owners_by_name
from hta_widgets.analyses.time.causes import CAUSE_NAMES
from hta_widgets.figures import idle_owners as figures
from hta_widgets.figures.base.style import CLASS_COLORS
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, write


def idle_causes(result, **settings):
    return figures.idle_causes(causes_by_device(result.devices, result.causes), **settings)


def idle_owners_by_name(result, **settings):
    return figures.idle_owners_by_name(owners_by_name(result.owners), **settings)


@pytest.fixture
def result(tmp_path):
    """60 µs of idle time in an operator, then 20 in the launch call, of which 15 are the usual
    latency; 40 of unknown cause."""
    launched = [host(0, 100, "a<b>"), call(70, 20, 1), kernel(0, 10), kernel(90, 10, correlation=1)]
    write(tmp_path / "rank-3.json", launched)
    write(tmp_path / "rank-8.json", [kernel(0, 10), kernel(50, 10)])
    return idle_owners(open_trace(tmp_path, progress=False))


def test_causes_of_each_gpu(result):
    figure = idle_causes(result, selected=[8]).figure()
    assert list(figure.layout.xaxis.ticktext) == ["3", "8"]
    assert {bar.name: list(bar.y) for bar in figure.data} == {
        "Launching": [18.75, 0],
        "Launching (other idle)": [6.25, 0],
        "Operators": [75, 0],
        "Launch not recorded": [0, 100],
    }
    assert list(figure.data[0].selectedpoints) == [1]
    operators, otherwise = figure.data[2], figure.data[1]
    assert "Operators: 60 µs, 75 % of 80 µs idle time" in operators.hovertext[0]
    assert otherwise.marker.color == CLASS_COLORS["other_idle"]


@pytest.mark.parametrize("ranks", [64, 65, 256])
def test_of_many_ranks_those_that_differ_most_are_drawn(ranks):
    table = pd.DataFrame({"rank": range(ranks), "device": 0, "launching": 100, "operator": 100})
    table.loc[40, ["launching", "operator"]] = 30, 170
    table.loc[50, ["launching", "operator"]] = 170, 30
    table["idle_ns"] = 200
    figure = figures.idle_causes(table, selected=[63]).figure()
    drawn = [each[0] for each in figure.data[0].customdata]
    assert len(drawn) == 64
    assert drawn == sorted(drawn)
    assert {40, 50, 63} <= {*drawn}
    assert [drawn[at] for at in figure.data[0].selectedpoints] == [63]
    many = f"Rank (the 64 of {ranks} that differ most from the median)"
    assert figure.layout.xaxis.title.text == ("Rank" if ranks == 64 else many)
    heights = dict(zip(drawn, figure.data[0].y, strict=True))
    assert (heights[40], heights[50], heights[63]) == (15, 85, 50)


def test_causes_by_time(result):
    figure = idle_causes(result, as_percent=False).figure()
    assert {bar.name: list(bar.y) for bar in figure.data}["Operators"] == [60, 0]
    assert figure.layout.yaxis.title.text == "Time (µs)"


def test_owners(result):
    figure = idle_owners_by_name(result, as_percent=False).figure()
    assert list(figure.layout.yaxis.ticktext) == [
        "a&lt;b&gt;",
        "(no CPU call recorded)",
        "cudaLaunchKernel",
    ]
    assert {bar.name: list(bar.x) for bar in figure.data} == {
        "Operators": [60, 0, 0],
        "Launch not recorded": [0, 40, 0],
        "Launching": [0, 0, 15],
        "Launching (other idle)": [0, 0, 5],
    }
    assert figure.data[0].name == "Launching"
    assert figure.data[2].hovertext[0] == (
        "a&lt;b&gt;<br>Operators: 60 µs, 50 % of 120 µs idle time"
    )


def test_the_top_owner(result):
    figure = idle_owners_by_name(result, num_owners=1).figure()
    assert {bar.name: list(bar.x) for bar in figure.data if sum(bar.x)} == {"Operators": [50]}


def test_every_cause_has_a_colour():
    assert figures.LOOKS.keys() == {*CAUSE_NAMES}
    assert len(set(figures.LOOKS.values())) == len(CAUSE_NAMES)


def test_causes_that_count_as_one_other_class_look_different():
    """A wait and time with nothing recorded could not be told apart in a dark theme."""
    causes = ["synchronising:other_idle", "nothing_recorded:other_idle", "dependency"]
    table = pd.DataFrame({"rank": [0], "device": [0], "idle_ns": [30]} | dict.fromkeys(causes, 10))
    bars = figures.idle_causes(table).figure().data
    assert len({(bar.marker.color, bar.marker.pattern.shape) for bar in bars}) == len(causes)


@pytest.mark.parametrize("draw", [idle_causes, idle_owners_by_name])
@pytest.mark.parametrize("as_percent", [True, False])
def test_nothing_to_draw(tmp_path, draw, as_percent):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    assert len(draw(idle_owners(job), as_percent=as_percent).figure().data) == 0
