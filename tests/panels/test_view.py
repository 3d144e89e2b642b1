from __future__ import annotations

from base64 import b64decode

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.panels.base.view import figure_view, format_cell


def bar(**properties):
    return figure_view("f", Drawing([trace("bar", **properties)], {}))["data"][0]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1.5, np.nan]), "f8"),
        (np.array([-128, 127], dtype=np.int64), "i1"),
        (np.array([-129, 2], dtype=np.int64), "i2"),
        (np.array([1, 2**31 - 1], dtype=np.int64), "i4"),
        (np.array([1, 255], dtype=np.uint8), "u1"),
        (np.array([1.5, 2.5], dtype=np.float32), "f4"),
    ],
)
def test_numbers_travel_as_bytes_that_a_browser_reads(values, dtype):
    sent = bar(x=values)["x"]
    assert sent["dtype"] == dtype
    np.testing.assert_array_equal(np.frombuffer(b64decode(sent["bdata"]), dtype), values)


@pytest.mark.parametrize("values", [np.array([], dtype=float), np.array([1, 2**31])])
def test_numbers_that_a_browser_has_no_array_of_travel_as_lists(values):
    assert bar(x=values)["x"] == values.tolist()


def test_rows_of_numbers_travel_with_their_shape():
    assert bar(customdata=np.zeros((2, 3)))["customdata"]["shape"] == "2, 3"


def test_texts_and_ids_travel_as_lists():
    sent = bar(text=np.array(["a", "b"], dtype=object), customdata=[[0], [None]])
    assert sent["text"] == ["a", "b"]
    assert sent["customdata"] == [[0], [None]]


def test_numbers_that_json_lacks_become_null():
    sent = figure_view("f", Drawing([], {"meta": [float("nan"), np.float64("inf"), 1]}))
    assert sent["layout"]["meta"] == [None, None, 1]


def test_the_template_stays_behind():
    drawn = Drawing([], {"height": 300})
    assert figure_view("f", drawn)["layout"] == {"height": 300}
    assert drawn.figure().layout.template == go.Figure(layout={"template": "none"}).layout.template


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-1234, "-1,234"), (0.5, "0.5"), (999.96, "1,000"), (None, ""), (pd.NA, "")],
)
def test_cells(value, text):
    assert format_cell(value) == text
