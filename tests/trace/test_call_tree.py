"""The forest of calls: everything inside a call is one slice."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.trace.model.call_tree import CallTree
from hta_widgets.trace.model.nesting import ancestors
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, write

BACKWARD = "autograd::engine::evaluate_function: X"

events = st.lists(
    st.builds(
        host,
        st.integers(0, 20),
        st.integers(0, 9),
        st.sampled_from([BACKWARD, "## backward ##", "ProfilerStep#1", "op"]),
        cat=st.sampled_from(["cpu_op", "user_annotation"]),
        tid=st.sampled_from([1, 2, 3]),
    ),
    max_size=14,
)


def tree_of(folder, drawn):
    rank = open_trace(write(folder / "rank-0.json", drawn), progress=False).rank(0)
    return rank, CallTree.of(rank.trace.events, rank.parents)


@given(events)
def test_runs_hold_what_is_inside(tmp_path_factory, drawn):
    rank, tree = tree_of(tmp_path_factory.mktemp("trace"), drawn)
    assert sorted(tree.rows.tolist()) == list(range(len(drawn)))
    place = tree.place_of_row()
    assert place[tree.rows].tolist() == list(range(len(drawn)))
    for row in range(len(drawn)):
        for around in ancestors(rank.parents, row):
            assert place[around] < place[row] < tree.ends[place[around]]
    inside = {
        (int(tree.rows[place]), int(row))
        for place, end in enumerate(tree.ends.tolist())
        for row in tree.rows[place + 1 : end]
    }
    nested = {(a, row) for row in range(len(drawn)) for a in ancestors(rank.parents, row)}
    assert nested <= inside
    names = rank.trace.events.names_at(np.arange(len(drawn)))
    for around, _ in inside - nested:
        here = [around, *(row for outer, row in nested if outer == around)]
        assert any(names[each].startswith(("## backward", "ProfilerStep")) for each in here)


def test_outermost(tmp_path):
    calls = [host(0, 10, "a"), host(1, 5, "b"), host(2, 1, "c"), host(8, 1, "d"), host(20, 1, "e")]
    _, tree = tree_of(tmp_path, calls)
    assert tree.outermost(np.array([1, 2, 3, 4])).tolist() == [True, False, True, True]
    assert tree.outermost(np.array([0, 1, 4])).tolist() == [True, False, True]
    assert tree.outermost(np.array([], dtype=np.int64)).tolist() == []


def test_backward_calls_stand_inside_the_annotation(tmp_path):
    calls = [
        host(0, 50, "ProfilerStep#1", cat="user_annotation", tid=1),
        host(10, 20, "## backward ##", cat="user_annotation", tid=1),
        host(11, 2, "inside", tid=1),
        host(40, 2, "after", tid=1),
        host(12, 5, BACKWARD, tid=2),
        host(13, 2, "grad", tid=2),
        host(41, 2, "late", tid=2),
        host(60, 2, "outside", tid=2),
        host(12, 5, "data loader", tid=3),
    ]
    rank, tree = tree_of(tmp_path, calls)
    names = rank.trace.events.names_at(tree.rows)

    def inside(name):
        place = names.index(name)
        return names[place + 1 : tree.ends[place]]

    assert inside("## backward ##") == ["inside", BACKWARD, "grad"]
    assert inside("ProfilerStep#1") == [
        *("## backward ##", "inside", BACKWARD, "grad", "after", "late"),
    ]
    assert inside(BACKWARD) == ["grad"]
