"""The budget bar is as long as a step, and a cell has the colour of its rank and step."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from hta_widgets.diagnosis import BUDGET, CAUSES
from hta_widgets.diagnosis.budget_table import named_classes
from hta_widgets.diagnosis.own_time import own_time
from hta_widgets.errors import ParameterError
from hta_widgets.figures.base.style import CLASS_COLORS
from hta_widgets.figures.diagnosis import (
    MOST_COLUMNS,
    MOST_ROWS,
    cause_look,
    own_time_cells,
    step_budget,
)
from hta_widgets.figures.svg.picture import svg

MS = 1_000_000


def spent(**classes_ms: float) -> pd.DataFrame:
    table = {f"{each.name}_ns": [int(classes_ms.get(each.name, 0) * MS)] for each in BUDGET}
    whole = sum(ns for (ns,) in table.values())
    return pd.DataFrame({"rank": [0], "step": [1], "period_ns": [whole], "own_ns": [0], **table})


def own(values: np.ndarray, first_step: int = 10):
    ranks, steps = np.indices(values.shape)
    table = {"rank": ranks.ravel(), "step": first_step + steps.ravel(), "own_ns": values.ravel()}
    return own_time(pd.DataFrame(table))


class TestBudget:
    drawn = step_budget(
        spent(compute=12, transfer=2, waiting=3, copies=0.5, data_loading=2.5), whose="rank 3"
    )

    def test_the_bar_is_as_long_as_the_step(self):
        lengths = [bar["x"][0] for bar in self.drawn.data]
        assert lengths == [12, 2, 3, 0.5, 2.5]
        assert self.drawn.layout["xaxis"]["range"] == [0, 20]
        assert self.drawn.layout["xaxis"]["title"]["text"] == "20 ms in the mean step of rank 3"

    def test_each_class_is_labelled_once(self):
        inside = [bar["text"][0] for bar in self.drawn.data if bar["text"][0]]
        legend = [entry["label"] for entry in self.drawn.layout["meta"]["legend"]]
        assert inside == ["compute 12 ms"]
        assert legend == [
            "transfer 2 ms",
            "waiting 3 ms",
            "copies and memsets 500 µs",
            "data loading 2.5 ms",
        ]
        in_plotly = [bar["name"] for bar in self.drawn.data if bar["showlegend"]]
        assert in_plotly == legend

    def test_waiting_is_hatched(self):
        by_name = {bar["name"].split()[0]: bar["marker"] for bar in self.drawn.data}
        assert by_name["waiting"]["color"] == by_name["transfer"]["color"] == "#D55E00"
        assert "pattern" in by_name["waiting"]
        assert "pattern" not in by_name["transfer"]

    def test_a_class_that_takes_no_time_is_left_out(self):
        drawn = step_budget(spent(compute=1))
        assert len(drawn.data) == 1
        assert drawn.layout["meta"]["legend"] == []

    @pytest.mark.parametrize(
        ("parts_ms", "host"),
        [
            ({}, "launch"),
            ({"init": 3}, "initialising"),
            ({"op": 2, "pause": 1}, "launch and stalls"),
            ({"op": 1, "init": 1.2, "pause": 0.8}, "initialising and launch"),
            ({"step": 3}, "between steps"),
        ],
    )
    def test_late_launches_say_what_the_host_does_for_a_fifth_of_them(
        self, parts_ms: dict[str, float], host: str
    ):
        (late,) = (each for each in BUDGET if each.name == "late_launching")
        of_steps = {f"gap_{name}_ns": [int(ms * MS)] for name, ms in parts_ms.items()}
        steps = pd.DataFrame({key: [0] for key in late.columns} | of_steps)
        classes = named_classes(steps)
        drawn = step_budget(spent(compute=1, late_launching=3), classes=classes)
        assert [bar["name"] for bar in drawn.data] == ["compute 1 ms", f"CPU-bound: {host} 3 ms"]

    def test_the_mean_of_several_steps(self):
        table = pd.concat([spent(compute=1), spent(compute=3, other_idle=2)])
        assert [bar["x"][0] for bar in step_budget(table).data] == [2, 1]

    def test_it_is_the_same_in_the_static_picture(self):
        picture = ET.fromstring(svg(self.drawn))  # noqa: S314
        texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert "compute 12 ms" in texts
        assert "waiting 3 ms" in texts
        stripes = [each for each in picture.iter() if each.get("fill-opacity") in ("0.50", ".5")]
        assert {each.get("stroke") for each in stripes} == {"#D55E00"}
        assert len(stripes) == 2  # the bar and its entry in the legend


def test_every_class_has_a_colour_and_every_cause_one_of_them():
    assert CLASS_COLORS.keys() == {each.name for each in BUDGET}
    for cause in CAUSES:
        assert cause_look(cause)[0] in CLASS_COLORS.values()
    assert cause_look("slow_gpu") == ("#D55E00", "hatched")
    assert cause_look("slow_link") == ("#D55E00", "solid")


def test_an_unknown_cause_is_named_with_those_that_are_known():
    with pytest.raises(ParameterError, match="no cause is called 'new'; those") as it:
        cause_look("new")
    assert all(cause in str(it.value) for cause in CAUSES)


class TestOwnTime:
    values = np.array([[100, 100, 100], [100, 100, 200], [100, 150, 100]]) * MS

    def test_a_row_for_each_rank_below_the_median(self):
        (cells,) = own_time_cells(own(self.values)).data
        assert cells["y"] == ["median", "rank 0", "rank 1", "rank 2"]
        np.testing.assert_allclose(
            cells["z"], [[0, 0, 0], [0, 0, 0], [0, 0, 100], [0, 50, 0]], atol=1e-5
        )
        assert cells["text"][2].tolist() == [100, 100, 200]
        assert [each[0] for each in cells["customdata"].tolist()] == [None, 0, 1, 2]
        assert (cells["x0"], cells["dx"]) == (10, 1)

    def test_the_scale_is_the_same_in_every_job(self):
        quiet = np.array([[1000, 1001], [1002, 1000], [1001, 1001]]) * MS
        for values in (self.values, quiet):
            (cells,) = own_time_cells(own(values)).data
            assert (cells["zmin"], cells["zmax"]) == (0, 50)

    def test_many_ranks_are_folded_to_the_slowest(self):
        values = np.full((1000, 3), 100) * MS
        values[517, 1] *= 2
        (cells,) = own_time_cells(own(values)).data
        assert len(cells["y"]) <= MOST_ROWS + 1
        row = cells["y"].index("ranks 512–527")
        assert cells["z"][row].tolist() == [0, 100, 0]
        assert cells["text"][row].tolist() == [100, 200, 100]
        assert cells["customdata"][row][0] == 517
        assert np.count_nonzero(cells["z"]) == 1

    def test_many_steps_as_well(self):
        values = np.full((3, 450), 100) * MS
        values[2, 203] *= 2
        drawn = own_time_cells(own(values, first_step=1000), steps=[1203])
        (cells,) = drawn.data
        assert cells["z"].shape[1] <= MOST_COLUMNS
        row, column = np.argwhere(cells["z"] > 0)[0]
        assert cells["y"][row] == "rank 2"
        middle = cells["x0"] + column * cells["dx"]
        assert abs(middle - 1203) <= cells["dx"] / 2
        (ring,) = drawn.layout["shapes"]
        assert ring["x0"] < 1203 < ring["x1"]
        assert ring["x1"] - ring["x0"] == cells["dx"]

    @pytest.mark.parametrize(
        ("ranks", "steps", "expected"),
        [
            ([], [], []),
            ([1, 2], [], [(None, None, 1.5, 3.5)]),
            ([0, 2], [], [(None, None, 0.5, 1.5), (None, None, 2.5, 3.5)]),
            ([], [11, 12], [(10.5, 12.5, None, None)]),
            ([1], [12], [(11.5, 12.5, 1.5, 2.5)]),
            ([], [99], []),
        ],
    )
    def test_what_is_selected_has_a_ring(self, ranks, steps, expected):
        shapes = own_time_cells(own(self.values), selected=ranks, steps=steps).layout.get(
            "shapes", []
        )
        rings = [
            tuple(
                None if shape.get(f"{end[0]}ref") == "paper" else shape[end]
                for end in ("x0", "x1", "y0", "y1")
            )
            for shape in shapes
        ]
        assert rings == expected

    def test_a_rank_alone(self):
        (cells,) = own_time_cells(own(self.values[1:2])).data
        assert cells["y"] == ["rank 0"]
        assert cells["z"].tolist() == [[0, 0, 100]]
