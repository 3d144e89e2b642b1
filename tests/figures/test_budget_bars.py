"""Bars of ranks: all of a few, and of many those that say most."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hta_widgets.figures.budget_bars import rank_budgets


def table(count: int) -> pd.DataFrame:
    """Ranks in reverse, that wait longer and longer."""
    waiting = np.arange(count, dtype=np.float64)
    ranks = np.arange(count)[::-1]
    return pd.DataFrame(
        {"rank": ranks, "period_ms": 300.0, "compute_ms": 300 - waiting, "waiting_ms": waiting}
    )


def drawn_ranks(figure) -> list[int]:
    return [rank for [rank] in figure.data[0]["customdata"]]


@pytest.mark.parametrize("count", [1, 8, 16])
def test_all_of_a_few_ranks_are_drawn(count):
    figure = rank_budgets(table(count))
    assert drawn_ranks(figure) == list(range(count))[::-1]
    assert [*figure.data[0]["y"]] == list(range(count))


def test_of_many_ranks_the_ends_the_middle_and_the_selected_are_drawn_in_little_height():
    figure = rank_budgets(table(256), selected=[200])
    places = [255 - rank for rank in drawn_ranks(figure)]
    assert places == [*range(3), 55, *range(126, 129), *range(253, 256)]
    texts = figure.layout["yaxis"]["ticktext"]
    assert [text for text in texts if "more" in text] == [
        *("52 more", "70 more", "124 more"),
    ]
    rows = [*figure.data[0]["y"]]
    assert len({*rows}) == len(places) == len(figure.data[0]["x"])
    [ring] = figure.layout["shapes"]
    assert (ring["y0"] + ring["y1"]) / 2 == pytest.approx(rows[places.index(55)])
    assert figure.layout["height"] <= 220
