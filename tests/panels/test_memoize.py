from __future__ import annotations

import pandas as pd

from hta_widgets.panels import ComparePanel, RankOverlapPanel
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
    compared = ComparePanel(loaded, loaded)
    shown.clear()
    compared.listed = "times"
    assert shown == ["table_view"]
