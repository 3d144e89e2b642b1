from __future__ import annotations

import pandas as pd

from hta_widgets.panels import ComparePanel, OperatorsPanel, RankOverlapPanel
from hta_widgets.panels.base import rendered_view
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.trace.job import Job

TABLE = pd.DataFrame({"n": [1]})


def test_the_same_sources_are_not_used_again():
    memo, made = MemoizeLast(), []
    for sources in [(TABLE, 1, (2,)), (TABLE, 1, (2,)), (TABLE, 1, (3,)), (TABLE.copy(), 1, (3,))]:
        memo.get("table", lambda: made.append(None), *sources)
    assert len(made) == 3
    memo.get("other", lambda: made.append(None), TABLE)
    assert len(made) == 4


def test_more_sources_than_before_are_others():
    """The what-if counts the kernels that are faster only where there are any."""
    memo = MemoizeLast()
    assert memo.get("step", lambda: "recorded", 1, 2) == "recorded"
    assert memo.get("step", lambda: "changed", 1, 2, "copies") == "changed"
    assert memo.get("step", lambda: "recorded again", 1, 2) == "recorded again"


def test_a_function_is_called_again_for_other_arguments():
    memo, called = MemoizeLast(), []

    def counted(*args, **named):
        called.append((args, named))
        return len(called)

    steps = {"steps": (1, 2), "window_ns": None}
    assert memo.call(counted, TABLE, (0,), **steps) == 1
    assert memo.call(counted, TABLE, (0,), **{**steps, "steps": (1, 2)}) == 1
    assert memo.call(counted, TABLE, (1,), **steps) == 2
    assert memo.call(counted, TABLE, (1,), **{**steps, "window_ns": (0, 9)}) == 3
    assert memo.call(counted, TABLE.copy(), (1,), **steps) == 4
    assert memo.call(counted, first=1) == 5
    assert memo.call(counted, second=1) == 6
    assert called[-1] == ((), {"second": 1})


def test_each_function_and_each_method_has_a_value_of_its_own():
    memo, rows = MemoizeLast(), pd.Series([1, 2, 3])
    first = memo.call(rows.head, 2)
    assert memo.call(rows.tail, 2) is not first
    assert memo.call(rows.head, 2) is first


def test_a_step_turns_into_json_what_it_changed(loaded: Job, monkeypatch):
    shown = []
    for name in ("figure_view", "table_view"):
        make = getattr(rendered_view, name)
        monkeypatch.setattr(
            rendered_view,
            name,
            lambda *given, make=make, name=name: shown.append(name) or make(*given),
        )
    lanes = RankOverlapPanel(loaded)
    before = lanes._view
    shown.clear()
    lanes.slices = 7
    assert shown == ["figure_view"]
    assert lanes._view["figures"][0] == before["figures"][0]
    assert lanes._view["figures"][1] != before["figures"][1]
    listed = OperatorsPanel(loaded)
    shown.clear()
    listed.num_operators = 7
    assert shown == ["figure_view"]
    compared = ComparePanel(loaded, loaded)
    shown.clear()
    compared.listed = "times"
    assert shown == ["table_view"]
