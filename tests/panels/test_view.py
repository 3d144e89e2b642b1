from __future__ import annotations

from base64 import b64decode

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from hta_widgets.panels.view import figure_view, format_cell, table_view


def bar(**properties):
    return figure_view("f", go.Figure(go.Bar(**properties)))["data"][0]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1.5, np.nan]), "f8"),
        (np.array([1, 2], dtype=np.int64), "i1"),
        (np.array([1.5, 2.5], dtype=np.float32), "f4"),
    ],
)
def test_numbers_travel_as_bytes_that_a_browser_reads(values, dtype):
    sent = bar(x=values)["x"]
    assert sent["dtype"] == dtype
    np.testing.assert_array_equal(np.frombuffer(b64decode(sent["bdata"]), dtype), values)


def test_texts_and_ids_travel_as_lists():
    sent = bar(text=np.array(["a", "b"], dtype=object), customdata=[[0], [None]])
    assert sent["text"] == ["a", "b"]
    assert sent["customdata"] == [[0], [None]]


def test_numbers_that_json_lacks_become_null():
    sent = figure_view("f", go.Figure(layout={"meta": [float("nan"), np.float64("inf"), 1]}))
    assert sent["layout"]["meta"] == [None, None, 1]


def test_the_template_stays_behind():
    figure = go.Figure(layout={"template": "plotly_dark", "height": 300})
    assert figure_view("f", figure)["layout"] == {"height": 300}


def test_a_table_is_text_with_numbers_to_the_right():
    table = pd.DataFrame(
        {
            "name": ["a", "b"],
            "sum_ns": [1234567, 2],
            "ratio": [0.123456, np.nan],
            "ok": [True, False],
        }
    )
    assert table_view(table) == {
        "columns": [
            {"label": "name", "align": "left"},
            {"label": "sum_ns", "align": "right"},
            {"label": "ratio", "align": "right"},
            {"label": "ok", "align": "left"},
        ],
        "rows": [["a", "1,234,567", "0.123", "yes"], ["b", "2", "", "no"]],
        "total": 2,
    }


def test_long_tables_are_cut_and_say_so():
    view = table_view(pd.DataFrame({"n": range(1000)}))
    assert (len(view["rows"]), view["total"]) == (200, 1000)


def test_an_empty_table_keeps_its_columns():
    view = table_view(pd.DataFrame({"n": pd.Series(dtype=float)}))
    assert [column["label"] for column in view["columns"]] == ["n"]
    assert view["rows"] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-1234, "-1,234"), (0.5, "0.5"), (999.96, "1,000"), (None, ""), (pd.NA, "")],
)
def test_cells(value, text):
    assert format_cell(value) == text
