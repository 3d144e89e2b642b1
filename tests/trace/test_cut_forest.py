"""The cut forest against the stack that defines it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.cut_forest import CutForest, cut_forest, depths
from hta_widgets.trace.model.nesting import parent_rows
from hta_widgets.trace.model.steps import mark_names, profiler_steps
from tests.call_stacks import Call, cut
from tests.kineto_text import call, host, kernel, step, write

KINDS = {
    "cpu_op": "op",
    "user_annotation": "annotation",
    "cuda_runtime": "api",
    "python_function": "python",
    "something": "other",
}
NAMES = (
    "aten::mm",
    "torch/autograd/profiler.py(1): __enter__",
    "torch/autograd/profiler.py(2): __exit__",
    "ProfilerStep#3",
    "train.py(3): step",
)


def forest_of(folder, events):
    table = load_kineto(write(folder / "trace.json", events), rank=0).events
    names = mark_names(table, profiler_steps(table))
    return table, CutForest(**cut_forest(table, parent_rows(table), names))


def as_calls(events):
    return [
        Call(
            name=event["name"],
            kind=KINDS[event["cat"]],
            pid=event["pid"],
            tid=event["tid"],
            start=round(1000 * event["ts"]),
            end=round(1000 * (event["ts"] + event["dur"])),
            index=index,
        )
        for index, event in enumerate(events)
        if event["cat"] in KINDS
    ]


def by_stack(events):
    """Place in preorder of the parent, and the cut end, by index in the file."""
    calls = [each for thread in sorted(cut(as_calls(events)).items()) for each in thread[1]]
    origin = min(event["ts"] for event in events) * 1000
    return {
        each.index: (each.parent and each.parent.index, each.cut_end - origin) for each in calls
    }


def as_forest(table, forest):
    index = table.index[forest.rows]
    parents = [None if place < 0 else int(index[place]) for place in forest.parent]
    return dict(
        zip(index.tolist(), zip(parents, forest.cut_end_ns.tolist(), strict=True), strict=True)
    )


QUARTER_US = st.integers(0, 96).map(lambda number: number / 4)
"""Times that overlap by less than 1 µs, too."""


@st.composite
def calls(draw):
    category = draw(st.sampled_from(sorted(KINDS)))
    times = draw(st.sampled_from([st.integers(0, 24), QUARTER_US]))
    return {
        **host(
            draw(times),
            draw(times),
            draw(st.sampled_from(NAMES)),
            tid=draw(st.sampled_from([1, 1, 1, 2])),
        ),
        "cat": category,
    }


def enter(ts, dur):
    return host(ts, dur, NAMES[1], cat="python_function")


LIFTED_TWICE = [enter(0, 10), host(5, 30, "aten::mm"), enter(6, 10), host(12, 40, "aten::mm")]


CUT_WHERE_THE_NEXT_BEGINS = [
    host(0, 20, "train.py(3): step", cat="python_function"),
    host(10, 80, "train.py(4): step", cat="python_function"),
    host(10, 50, "torch/autograd/profiler.py(2): __exit__", cat="python_function"),
]
"""The second call is cut where it begins, and so is the one around it."""


@settings(max_examples=150)
@given(st.lists(calls(), min_size=1, max_size=14))
@example(LIFTED_TWICE)
@example(CUT_WHERE_THE_NEXT_BEGINS)
def test_it_is_that_of_the_stack_and_subtrees_are_slices(tmp_path_factory, events):
    table, forest = forest_of(tmp_path_factory.getbasetemp(), events)
    assert as_forest(table, forest) == by_stack(events)
    for place in range(forest.rows.size):
        above, chain = place, []
        while above >= 0:
            chain.append(above)
            above = forest.parent[above]
        for each in range(forest.rows.size):
            inside = each <= place < forest.ends[each]
            assert inside == (each in chain)


def names_around(folder, events, name):
    table, forest = forest_of(folder, events)
    names = table.names_at(forest.rows)
    place, found = names.index(name), []
    while place >= 0:
        found.append(names[place])
        place = forest.parent[place]
    return found


def test_a_range_outlives_the_frame_in_which_it_begins(tmp_path):
    frames = [
        host(0, 100, "train.py(1): main", cat="python_function"),
        host(1, 5, "torch/autograd/profiler.py(3): __enter__", cat="python_function"),
        host(2, 4, "<built-in method _record_function_enter_new>", cat="python_function"),
        host(5, 80, "forward", cat="user_annotation"),
        host(20, 5, "aten::mm"),
        host(84, 6, "torch/autograd/profiler.py(4): __exit__", cat="python_function"),
        host(92, 2, "aten::add"),
    ]
    assert names_around(tmp_path, frames, "aten::mm") == [
        "aten::mm",
        "forward",
        "train.py(1): main",
    ]
    assert names_around(tmp_path, frames, "aten::add") == ["aten::add", "train.py(1): main"]


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        (host(2, 30, "nccl:all_reduce", cat="user_annotation"), ["train.py(1): f"]),
        (host(2, 9.5, "forward", cat="user_annotation"), ["train.py(1): f"]),
        ({**host(2, 30, "forward"), "cat": "cuda_runtime"}, ["train.py(1): f"]),
    ],
)
def test_what_outlives_other_calls_is_cut(tmp_path, late, expected):
    events = [host(0, 10, "train.py(1): f", cat="python_function"), late, host(15, 1, "after")]
    assert names_around(tmp_path, events, late["name"])[1:] == expected
    assert names_around(tmp_path, events, "after") == ["after"]


def test_a_call_that_begins_just_before_the_last_one_ends_follows_it(tmp_path):
    """By 33 ns, which cut a loader call of 26 ms to them."""
    events = [
        host(0, 30_000, "main"),
        host(10, 50.033, "aten::copy_"),
        call(20, 40.033, 1),
        host(60, 26_000, "load_batch"),
        host(70, 5, "aten::stack"),
    ]
    assert names_around(tmp_path, events, "aten::stack") == ["aten::stack", "load_batch", "main"]
    table, forest = forest_of(tmp_path, events)
    ends = dict(zip(table.names_at(forest.rows), forest.cut_end_ns.tolist(), strict=True))
    assert (ends["aten::copy_"], ends["cudaLaunchKernel"]) == (60_000, 60_000)
    assert ends["load_batch"] == 26_060_000


@pytest.mark.parametrize(
    ("overlap", "lasts", "is_inside"),
    [(1, 5, False), (1.001, 5, True), (0.5, 1.001, False), (0.5, 1, True), (1, 2, True)],
)
def test_how_long_two_calls_overlap_of_which_one_follows_the_other(
    tmp_path, overlap, lasts, is_inside
):
    """A call of 1 µs and more that ends 1 µs after the one around it does so by rounding."""
    events = [host(0, 10, "first"), host(10 - overlap, lasts, "second")]
    around = ["second", "first"] if is_inside else ["second"]
    assert names_around(tmp_path, events, "second") == around


def test_steps_are_no_calls(tmp_path):
    events = [host(0, 50, "main"), step(1, 1, 20), host(2, 3, "aten::mm"), kernel(4, 1)]
    assert names_around(tmp_path, events, "aten::mm") == ["aten::mm", "main"]


def test_depth_and_what_is_below(tmp_path):
    events = [host(0, 9, "a"), host(1, 5, "b"), call(2, 1, 1), host(7, 1, "c"), host(7, 0, "d")]
    table, forest = forest_of(tmp_path, events)
    depth = dict(zip(table.names_at(forest.rows), depths(forest.ends).tolist(), strict=True))
    assert depth == {"a": 0, "b": 1, "cudaLaunchKernel": 2, "c": 1, "d": 2}
    is_b = np.array([name == "b" for name in table.names_at(forest.rows)])
    below = forest.at_or_below(is_b)
    assert [table.names_at(forest.rows)[place] for place in np.flatnonzero(below)] == [
        "b",
        "cudaLaunchKernel",
    ]
    assert [(each.pid, each.tid) for each in forest.threads(table)] == [(100, 100)]


def test_thousands_of_nested_calls_that_outlive_each_other(tmp_path):
    """Each is looked at once or twice: the chain inside it is not walked again for each."""
    events = [host(place, 20_000, f"f{place % 7}", cat="python_function") for place in range(9000)]
    _, forest = forest_of(tmp_path, events)
    assert set(forest.cut_end_ns.tolist()) == {20_000_000}
    assert depths(forest.ends).tolist() == list(range(9000))
