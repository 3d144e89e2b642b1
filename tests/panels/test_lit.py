"""The intervals of the selected finding, as the timeline gets them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis import diagnosis
from hta_widgets.intervals import Intervals
from hta_widgets.panels import Selection, TimelinePanel
from hta_widgets.panels.timeline.encoding import coarse, lit
from hta_widgets.trace.job import Job


def test_all_intervals_of_a_finding_are_lit_on_all_of_its_ranks(loaded: Job):
    panel = TimelinePanel(loaded, selection=Selection())
    found = loaded.remember(diagnosis)
    proof = found.proof(found[0])
    panel.selection.set(finding=0, window_ns=proof.shown_ns(0))
    shown = dict(panel._lit)
    assert [*shown] == proof.intervals["rank"].unique().tolist()
    for rank, rows in proof.intervals.groupby("rank"):
        whole = Intervals.union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
        assert Intervals.union(shown[rank][::2], shown[rank][1::2]).length == whole.length > 0
    panel.selection.finding = None
    assert panel._lit == []


@given(st.lists(st.integers(1, 30), min_size=2, max_size=40), st.integers(1, 10))
def test_too_many_are_joined_across_their_shortest_gaps(lengths, most):
    edges = np.cumsum(lengths[: len(lengths) // 2 * 2])
    whole = Intervals.union(edges[::2], edges[1::2])
    found = coarse(whole, most)
    assert len(found) == min(len(whole), most)
    assert (whole - found).length == 0
    gaps = np.sort(whole.starts[1:] - whole.ends[:-1])
    assert found.length - whole.length == gaps[: len(whole) - len(found)].sum()


def test_inside_of_the_window_they_are_exact():
    starts = np.arange(20_000, dtype=np.int64) * 10
    table = pd.DataFrame({"rank": 0, "start_ns": starts, "end_ns": starts + 3})
    ((rank, times),) = lit(table, (50_000, 51_000))
    assert rank == 0
    assert len(times) < 2 * 6_200
    inside = [each for each in times if 50_000 <= each < 51_000]
    assert inside == [each for start in range(50_000, 51_000, 10) for each in (start, start + 3)]
