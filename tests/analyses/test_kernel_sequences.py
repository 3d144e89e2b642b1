"""Kernel sequences: literal cases, and brute force over drawn trees of calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.kernel_sequences import (
    kernel_sequences,
    operators_by_gpu_time,
    pattern_of_events,
    suggested_operator,
)
from hta_widgets.errors import ParameterError, UnknownRankError
from tests.analyses.generated_calls import calls, occurrences, operators, sequences
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, host, kernel, step


def rows(result):
    table = result.patterns
    columns = [table[name].tolist() for name in ("pattern", "count", "gpu_time_ns", "cpu_time_ns")]
    return list(zip(*columns, strict=True))


def launched(ts, correlation, start, *, tid=100, name="k", dur=1, **settings):
    """A launch and its kernel."""
    return [
        call(ts, 1, correlation, tid=tid),
        kernel(start, dur, name=name, correlation=correlation, **settings),
    ]


@given(
    calls(),
    st.sampled_from(["aten::add", "add", "aten::", "linear", "cudaGraph", "nothing"]),
    st.integers(0, 3),
    st.booleans(),
)
def test_against_brute_force(tmp_path_factory, drawn, name, min_pattern_len, whole_name):
    job = open_job(tmp_path_factory.mktemp("job"), [drawn.events])
    result = kernel_sequences(
        job, operator_name=name, min_pattern_len=min_pattern_len, whole_name=whole_name
    )
    fits = name.__eq__ if whole_name else lambda each: name in each
    expected = sequences(drawn, fits, min_pattern_len)
    assert rows(result) == [
        (pattern, count, 1000 * gpu, 1000 * cpu) for pattern, count, gpu, cpu in expected
    ]
    assert [sequence.count("|") for sequence in result.patterns["pattern"]] == [
        *map(len, result.sequences)
    ]


@given(calls(), st.sampled_from(["aten::add", "add", "aten::"]), st.integers(1, 3))
def test_events_of_the_patterns_against_brute_force(tmp_path_factory, drawn, name, top_k):
    job = open_job(tmp_path_factory.mktemp("job"), [drawn.events])
    result = kernel_sequences(job, operator_name=name, min_pattern_len=1)
    belongs = pattern_of_events(job, result, top_k)
    events = job.rank(0).trace.events
    marked = {
        int(events.index[row]): result.patterns["pattern"][pattern]
        for row, pattern in enumerate(belongs.tolist())
        if pattern >= 0
    }
    top = {pattern for pattern, *_ in sequences(drawn, lambda each: name in each, 1)[:top_k]}
    assert marked == {
        drawn.place(event): drawn.pattern(node)
        for node in occurrences(drawn, lambda each: name in each)
        if drawn.pattern(node) in top
        for inside in node.walk()
        for event in [inside.event, *inside.work]
    }


@given(calls())
def test_operators_against_brute_force(tmp_path_factory, drawn):
    job = open_job(tmp_path_factory.mktemp("job"), [drawn.events])
    table = operators_by_gpu_time(job)
    columns = [table[name].tolist() for name in ("name", "occurrences", "kernels", "gpu_time_ns")]
    expected = [
        (name, often, kernels, 1000 * gpu) for name, often, kernels, gpu in operators(drawn)
    ]
    assert list(zip(*columns, strict=True)) == expected


def test_occurrences_at_different_depths_all_count(tmp_path):
    """Spec B20: HTA looks at those of the smallest depth only."""
    shallow = [host(0, 5, "aten::linear"), *launched(1, 1, 20)]
    deep = [host(10, 9, "forward"), host(11, 5, "aten::linear"), *launched(12, 2, 30)]
    inside_itself = [host(13, 2, "aten::linear")]
    job = open_job(tmp_path, [shallow + deep + inside_itself])
    result = kernel_sequences(job, operator_name="aten::linear", min_pattern_len=1)
    assert rows(result) == [("aten::linear|k", 2, 2000, 10_000)]
    assert result.notices == ()


def test_work_is_in_the_order_of_the_gpu_whatever_the_stream(tmp_path):
    """Spec B22: stream 0 too."""
    events = [
        host(0, 9, "op"),
        *launched(1, 1, 40, name="third", stream=0),
        *launched(2, 2, 20, name="first", stream=7),
        *launched(4, 3, 30, name="second", stream=20, cat="gpu_memcpy"),
    ]
    result = kernel_sequences(open_job(tmp_path, [events]), operator_name="op")
    assert rows(result) == [("op|first|second|third", 1, 3000, 9000)]
    assert result.sequences == (("first", "second", "third"),)


def test_exact_to_the_nanosecond(tmp_path):
    """Spec B3."""
    events = [host(0.25, 3.125, "op"), *launched(1, 1, "40.001", dur=0.003)]
    result = kernel_sequences(open_job(tmp_path, [events]), operator_name="op", min_pattern_len=1)
    assert rows(result) == [("op|k", 1, 3, 3125)]


def test_the_last_step_is_left_out(tmp_path):
    events = [
        step(1, 0, 10),
        step(2, 10, 10),
        *[host(ts, 5, "op") for ts in (1, 11)],
        *launched(2, 1, 30),
        *launched(12, 2, 40),
    ]
    job = open_job(tmp_path, [events])
    for min_pattern_len in (0, 1):
        result = kernel_sequences(job, operator_name="op", min_pattern_len=min_pattern_len)
        assert rows(result) == [("op|k", 1, 1000, 5000)]


def test_the_backward_pass_belongs_to_the_annotation_that_waits_for_it(tmp_path):
    backward = "autograd::engine::evaluate_function: AddBackward0"
    events = [
        step(1, 0, 40),
        host(1, 8, "## forward ##", cat="user_annotation"),
        *launched(2, 1, 50, name="forward"),
        host(20, 10, "## backward ##", cat="user_annotation"),
        host(21, 5, backward, tid=200),
        host(22, 3, "aten::add", tid=200),
        *launched(23, 2, 60, name="backward", tid=200),
        host(35, 3, backward, tid=200),
        *launched(36, 3, 70, name="late", tid=200),
    ]
    job = open_job(tmp_path, [events])
    for name, kernels in {
        "ProfilerStep": ("forward", "backward", "late"),
        "## backward ##": ("backward",),
        "## forward ##": ("forward",),
        "aten::add": ("backward",),
    }.items():
        result = kernel_sequences(job, operator_name=name, min_pattern_len=1)
        assert result.sequences == (kernels,), name
    result = kernel_sequences(job, operator_name=backward, min_pattern_len=1)
    assert [row[1] for row in rows(result)] == [1, 1]


def test_a_part_of_the_name_or_the_whole(tmp_path):
    events = [host(0, 5, "aten::add"), *launched(1, 1, 20)]
    events += [host(10, 5, "aten::addmm"), *launched(11, 2, 30)]
    job = open_job(tmp_path, [events])
    part = kernel_sequences(job, operator_name="aten::add", min_pattern_len=1)
    assert [row[0] for row in rows(part)] == ["aten::addmm|k", "aten::add|k"]
    assert "2 different names contain operator_name: aten::add, aten::addmm" in part.notices
    assert part.finding.startswith(
        "The 2 occurrences of aten::add on rank 0 launched 2 different sequences; the most "
        "frequent one, k, occurs once and takes "
    )
    whole = kernel_sequences(job, operator_name="aten::add", min_pattern_len=1, whole_name=True)
    assert [row[0] for row in rows(whole)] == ["aten::add|k"]


def test_words(tmp_path):
    events = [host(0, 5, "aten::add"), *launched(1, 1, 20, name="void relu_kernel<int>(int)")]
    job = open_job(tmp_path, [events, []])
    assert kernel_sequences(job, operator_name="aten::add", min_pattern_len=1).finding == (
        "The only occurrence of aten::add on rank 0 launched 1 sequence, relu_kernel, which "
        "takes 1 µs of GPU time and 5 µs of CPU time."
    )
    short = kernel_sequences(job, operator_name="aten::add")
    assert short.finding == (
        "The only occurrence of aten::add on rank 0 launched no sequence of at least 3 GPU "
        "operations."
    )
    assert short.notices[-1] == (
        "sequences of fewer than 3 GPU operations are left out (1 of 1 occurrence)"
    )
    missing = kernel_sequences(job, operator_name="ATEN::ADD")
    assert missing.finding == "No call on rank 0 matches 'ATEN::ADD'; similar names: aten::add."
    assert list(missing.patterns.columns) == list(short.patterns.columns)
    nothing = kernel_sequences(job, 1, operator_name="aten::add")
    assert nothing.finding == "No call on rank 1 matches 'aten::add'."
    assert operators_by_gpu_time(job, 1).empty
    assert suggested_operator(job, 1) == "aten::linear"


def test_suggested_operator(tmp_path):
    events = []
    for number in range(2):
        events += [host(20 * number, 18, "block")]
        for each in range(3):
            start = 20 * number + 5 * each
            events += [host(start + 1, 4, "single")]
            events += launched(start + 2, 10 * number + each, 100 + 20 * number + 5 * each, dur=5)
    job = open_job(tmp_path, [events])
    assert operators_by_gpu_time(job)["name"].tolist() == ["block", "single"]
    assert suggested_operator(job) == "block"


def test_parameters(tmp_path):
    job = open_job(tmp_path, [[host(0, 1, "op")]])
    with pytest.raises(ParameterError, match="operator_name is empty"):
        kernel_sequences(job, operator_name="")
    with pytest.raises(ParameterError, match="min_pattern_len must be 0 or more, got -1"):
        kernel_sequences(job, operator_name="op", min_pattern_len=-1)
    with pytest.raises(UnknownRankError, match="its ranks are 0"):
        kernel_sequences(job, 3, operator_name="op")
