"""Nearest calls around, forward operators, modules and phases of calls, against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.time.calls import (
    at_or_around,
    calls_of,
    nearest_above,
    nearest_at_or_above,
)
from hta_widgets.analyses.time.modules import PHASES, forward_places, module_places, phases
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import host, kernel
from tests.raw_modules import RawModules

NAMES = (
    *("aten::mm", "train.py(3): step", "nn.Module: Linear_0", "nn.Module: Linear_1"),
    *("nn.Module: Net_0", "autograd::engine::evaluate_function: MmBackward0"),
    *("Optimizer.step#Adam.step", "ProfilerStep#3", "torch/autograd/profiler.py(1): __enter__"),
)
CATEGORIES = ("cpu_op", "cpu_op", "python_function", "user_annotation", "cuda_runtime")


def operator(ts, dur, name, sequence=None, thread=None, *, tid=100, **fields):
    numbers = {"Sequence number": sequence, "Fwd thread id": thread}
    args = {key: value for key, value in numbers.items() if value is not None}
    return {**host(ts, dur, name, tid=tid), "args": args, **fields}


def frame(ts, dur, name, **where):
    return host(ts, dur, name, cat="python_function", **where)


@st.composite
def numbered_calls(draw):
    return operator(
        draw(st.integers(0, 30)),
        draw(st.integers(0, 20)),
        draw(st.sampled_from(NAMES)),
        draw(st.sampled_from([None, -1, 1, 1, 2, 2**64 - 1])),
        draw(st.sampled_from([None, 0, 0, 1, 1, 2])),
        tid=draw(st.sampled_from([1, 1, 2, 3])),
        cat=draw(st.sampled_from(CATEGORIES)),
        pid=draw(st.sampled_from([100, 100, 200])),
    )


@given(st.data())
def test_nodes_and_all_around_them(data):
    size = data.draw(st.integers(0, 30))
    parent = [data.draw(st.integers(-1, node - 1)) for node in range(size)]
    asked = data.draw(st.lists(st.integers(-1, size - 1), max_size=40))
    expected = set()
    for node in asked:
        while node >= 0:
            expected.add(node)
            node = parent[node]  # noqa: PLW2901
    found = at_or_around(np.array(parent, dtype=np.int32), np.array(asked, dtype=np.int64))
    assert np.flatnonzero(found).tolist() == sorted(expected)


def rank_of(folder, events):
    return open_job(folder, [[*events, kernel(0, 1)]]).rank(0)


def by_index(rank, places):
    """Indices in the file of the calls at some places, by that of the call which has them."""
    calls = calls_of(rank)
    index = calls.events.index[calls.forest.rows].tolist()
    return {index[at]: index[place] for at, place in enumerate(places.tolist()) if place >= 0}


def chain(forest, place):
    found = []
    while place >= 0:
        found.append(place)
        place = int(forest.parent[place])
    return found


@given(st.lists(numbered_calls(), min_size=1, max_size=16), st.integers(0, 2**16))
def test_the_nearest_of_some_calls(tmp_path_factory, events, bits):
    forest = calls_of(rank_of(tmp_path_factory.getbasetemp(), events)).forest
    chosen = np.array([bits >> place & 1 for place in range(forest.rows.size)], dtype=np.bool_)
    at, above = nearest_at_or_above(forest, chosen), nearest_above(forest, chosen)
    for place in range(forest.rows.size):
        around = [each for each in chain(forest, place) if chosen[each]]
        assert at[place] == next(iter(around), -1)
        assert above[place] == next((each for each in around if each != place), -1)


@given(st.lists(numbered_calls(), min_size=1, max_size=16))
def test_against_brute_force(tmp_path_factory, events):
    rank = rank_of(tmp_path_factory.getbasetemp(), events)
    check(rank, RawModules(events))


def check(rank, raw):
    linked = {each.index: forward.index for each, forward in raw.forward_of.items()}
    assert by_index(rank, forward_places(rank)) == linked
    calls = [each for calls in raw.threads.values() for each in calls]
    modules = {each.index: raw.module(each) for each in calls}
    expected = {index: module.index for index, module in modules.items() if module}
    assert by_index(rank, module_places(rank)) == expected
    index = calls_of(rank).events.index[calls_of(rank).forest.rows].tolist()
    found = dict(zip(index, [PHASES[code] for code in phases(rank).tolist()], strict=True))
    assert found == {each.index: raw.phase(each) for each in calls}


@st.composite
def operators_of_few_numbers(draw):
    return operator(
        draw(st.integers(0, 12)),
        draw(st.integers(0, 4)),
        "aten::mm",
        draw(st.sampled_from([1, 2, 3])),
        draw(st.sampled_from([0, 0, 1, 2])),
        tid=draw(st.sampled_from([1, 2, 3])),
        pid=draw(st.sampled_from([100, 100, 100, 200])),
    )


@given(st.lists(operators_of_few_numbers(), min_size=2, max_size=14))
def test_numbers_on_several_threads(tmp_path_factory, events):
    check(rank_of(tmp_path_factory.getbasetemp(), events), RawModules(events))


def forward_of_last(folder, events):
    """Index of the forward operator of the last event."""
    return by_index(rank_of(folder, events), forward_places(rank_of(folder, events)))[
        len(events) - 1
    ]


def test_of_operators_that_start_together_the_innermost_is_the_forward_one(tmp_path):
    inner, outer = operator(0, 4, "aten::addmm", 7), operator(0, 9, "aten::linear", 7)
    backward = operator(20, 5, "AddmmBackward0", 7, 1, tid=2)
    assert forward_of_last(tmp_path, [inner, outer, backward]) == 0


def test_a_forward_thread_is_one_of_its_own_process(tmp_path):
    """The profiler numbers the threads of each process from 1."""
    other = [operator(ts, 1, "a", ts, tid=9, pid=200) for ts in (1, 2, 3)]
    other += [operator(10 + s, 1, "b", s, 1, tid=8, pid=200) for s in (1, 2, 3)]
    known = [operator(0, 1, "a", 4, tid=5), operator(15, 1, "b", 4, 1, tid=6)]
    on_two = [operator(1, 1, "a", 7, tid=5), operator(2, 1, "a", 7, tid=9)]
    events = [*other, *known, *on_two, operator(20, 1, "b", 7, 1, tid=6)]
    assert forward_of_last(tmp_path, events) == len(other) + len(known)


def test_recomputation_has_frames_of_its_own(tmp_path):
    """Activation checkpointing calls modules on the autograd thread."""
    engine = "autograd::engine::evaluate_function: CheckpointFunctionBackward"
    events = [
        frame(0, 10, "nn.Module: Net_0"),
        operator(1, 5, "aten::mm", 7),
        operator(20, 30, engine, tid=2),
        frame(22, 10, "nn.Module: Net_0", tid=2),
        operator(23, 5, "aten::mm", 8, tid=2),
        operator(35, 9, "MmBackward0", 7, 1, tid=2),
        operator(36, 5, "aten::mm", tid=2),
    ]
    rank = rank_of(tmp_path, events)
    assert by_index(rank, module_places(rank)) == {0: 0, 1: 0, 3: 3, 4: 3, 5: 0, 6: 0}
    index = calls_of(rank).events.index[calls_of(rank).forest.rows]
    found = [PHASES[code] for code in phases(rank)[np.argsort(index)].tolist()]
    assert found == ["forward", "forward", *5 * ["backward"]]
