"""Nesting of CPU calls against brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.nesting import NO_PARENT, ancestors, parent_rows
from tests.kineto_text import call, host, kernel, write


def load(folder, events):
    return load_kineto(write(folder / "trace.json", events), rank=0).events


def test_stack(tmp_path):
    events = [host(0, 9, "outer"), host(1, 5, "inner"), call(2, 1, 1), host(7, 1, "second")]
    table = load(tmp_path, events)
    parents = parent_rows(table)
    assert parents.tolist() == [NO_PARENT, 0, 1, 0]
    assert list(ancestors(parents, 2)) == [1, 0]


def test_threads_and_gpu_work_are_apart(tmp_path):
    events = [host(0, 9, "outer"), host(1, 5, "other thread", tid=7), kernel(2, 1)]
    assert parent_rows(load(tmp_path, events)).tolist() == [NO_PARENT] * 3


def test_longest_is_outermost_and_touching_is_not_inside(tmp_path):
    events = [host(0, 2, "inner"), host(0, 5, "outer"), host(5, 1, "next"), host(0, 0, "empty")]
    table = load(tmp_path, events)
    by_name = {table.name.values[code]: row for row, code in enumerate(table.name.codes)}
    parents = parent_rows(table)
    assert parents[by_name["inner"]] == by_name["outer"]
    assert parents[by_name["empty"]] == by_name["inner"]
    assert parents[by_name["next"]] == NO_PARENT


def test_child_that_ends_late_stays_a_child(tmp_path):
    table = load(tmp_path, [host(0, 5, "outer"), host(1, 5, "late"), host(2, 1, "inside late")])
    assert parent_rows(table).tolist() == [NO_PARENT, 0, 1]


@st.composite
def nested_calls(draw, start=0, end=64):
    """A tree of calls inside [start, end), with distinct extents."""
    edges = sorted(draw(st.sets(st.integers(start + 1, end - 1), max_size=4)))
    if len(edges) < 2:
        return []
    spans = list(zip(edges[::2], edges[1::2], strict=False))
    return [
        event
        for first, last in spans
        for event in [(first, last), *(draw(nested_calls(first, last)) if last - first > 2 else [])]
    ]


@given(st.lists(nested_calls(), min_size=1, max_size=3))
def test_against_brute_force(tmp_path_factory, threads):
    events = [
        host(start, end - start, f"{tid} {start} {end}", tid=tid)
        for tid, calls in enumerate(threads)
        for start, end in calls
    ]
    table = load(tmp_path_factory.mktemp("nesting"), events)
    for row, parent in enumerate(parent_rows(table).tolist()):
        around = [
            other
            for other in range(len(table))
            if table.tid[other] == table.tid[row]
            and table.start_ns[other] < table.start_ns[row]
            and table.end_ns[row] < table.end_ns[other]
        ]
        innermost = min(around, key=lambda other: table.duration_ns[other], default=NO_PARENT)
        assert parent == innermost
