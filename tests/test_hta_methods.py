"""HTA's remaining methods: names, arguments and shapes, right where HTA is wrong."""

from __future__ import annotations

import inspect
import logging
from collections import defaultdict
from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given

from hta_widgets import TraceAnalysis
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.hta_tables.aten_operators import COLUMNS as ATEN
from hta_widgets.hta_tables.gpu_annotations import BREAKDOWN
from hta_widgets.hta_tables.results import BLOCKED
from tests.analyses.test_gpu_annotations import annotated
from tests.analyses.test_idle_owners import annotation
from tests.kineto_text import call, host, kernel, step, write
from tests.raw_idle import RawIdle


def analysis(folder, *ranks):
    for number, events in enumerate(ranks):
        write(folder / f"rank-{number}.json", events)
    return TraceAnalysis(trace_dir=folder, progress=False)


def gpu_annotation(ts, dur, name, stream=7):
    return kernel(ts, dur, name=name, cat="gpu_user_annotation", stream=stream)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        (
            "get_gpu_kernels_with_user_annotations",
            {"rank": inspect.Parameter.empty, "expand_names": True, "shorten_names": True},
        ),
        (
            "get_gpu_user_annotation_breakdown",
            {
                "use_gpu_annotation": True,
                "visualize": True,
                "duration_ratio": 0.8,
                "num_kernels": 1000,
                "allowlist_patterns": None,
                "image_renderer": None,
            },
        ),
        ("get_aten_op_kernels_and_delay", {"ranks": None, "sort_by": None}),
        (
            "get_potential_stragglers",
            {
                "profiler_steps": None,
                "num_candidates": 2,
                "visualize": False,
                "straggler_identification_impl": None,
            },
        ),
        (
            "get_queue_length_summary_from_time_series",
            {"queue_length_dict": inspect.Parameter.empty},
        ),
        (
            "get_time_spent_blocked_on_full_queue",
            {"queue_length_dict": inspect.Parameter.empty, "max_queue_length": 1024},
        ),
    ],
)
def test_signatures_are_those_of_hta(method, arguments):
    parameters = inspect.signature(getattr(TraceAnalysis, method)).parameters
    found = {
        name: each.default
        for name, each in parameters.items()
        if name != "self" and each.kind is not inspect.Parameter.KEYWORD_ONLY
    }
    assert found == arguments


def innermost(raw, work):
    """Annotation of a piece of work by its launch, by looking at all annotations."""
    start = work["call"].start
    marks = [each for each in raw.steps if each.kind == "annotation"]
    every = [each for calls in raw.threads.values() for each in calls if each.kind == "annotation"]
    bound = max((each.start for each in raw.steps), default=0)
    if len({each.name for each in raw.steps}) > len(raw.numbers):
        marks = [each for each in marks if each.start < bound]
        every = [each for each in every if each.start < bound]
    threads = [(work["call"].pid, work["call"].tid)]
    threads += [(each.pid, each.tid) for each in raw.steps[:1]]
    for thread in threads:
        running = [
            each
            for each in (*every, *marks)
            if (each.pid, each.tid) == thread and each.start <= start < each.end
        ]
        if running:
            return max(running, key=lambda each: (each.start, -each.end, each.index)).name
    return ""


@given(annotated())
def test_kernels_by_annotation_against_brute_force(tmp_path_factory, events):
    raw = RawIdle(events)
    expected = sorted(
        (each["start"] / 1000, each["end"] / 1000, innermost(raw, each) if each["call"] else "")
        for each in raw.analysed
    )
    first = min(each["ts"] for each in events)
    table = analysis(tmp_path_factory.mktemp("kernels"), events)
    table = table.get_gpu_kernels_with_user_annotations(0)
    columns = ((table["ts"] + first).round(3), (table["end"] + first).round(3))
    assert sorted(zip(*columns, table["s_user_annotation"], strict=True)) == expected
    assert ((table["user_annotation"] >= 0) == (table["annotation_source"] != "")).all()


def test_autograd_takes_the_annotation_of_the_thread_of_the_steps(tmp_path):
    events = [
        *(step(number, 100 * number, 100) for number in range(2)),
        annotation(10, 50, "## backward ##"),
        annotation(12, 5, "inner", tid=200),
        call(13, 1, 1, tid=200),
        call(30, 1, 2, tid=200),
        kernel(15, 5, correlation=1),
        kernel(40, 5, correlation=2),
        kernel(60, 5, name="void gemm<float>(int)"),
        gpu_annotation(50, 30, "execute_1(8)_generation_0(0)"),
        gpu_annotation(55, 20, "elsewhere", stream=9),
    ]
    table = analysis(tmp_path, events).get_gpu_kernels_with_user_annotations(0)
    assert table["s_user_annotation"].tolist() == [
        *("inner", "## backward ##", "execute_1(8)_generation_0(0)")
    ]
    assert table["annotation_source"].tolist() == ["launch", "handover", "gpu"]
    assert table["s_name"].tolist() == ["kernel", "kernel", "gemm"]
    assert table["iteration"].tolist() == [0, 0, -1]
    assert table[["ts", "dur", "end"]].to_numpy().tolist()[0] == [15, 5, 20]


def test_kernels_without_texts_and_of_unknown_ranks(tmp_path):
    hta = analysis(tmp_path, [kernel(0, 5)])
    table = hta.get_gpu_kernels_with_user_annotations(0, expand_names=False)
    assert not [name for name in table if name.startswith("s_")]
    assert table["user_annotation"].tolist() == [-1]
    with pytest.raises(UnknownRankError):
        hta.get_gpu_kernels_with_user_annotations(7)


def ranges():
    return [
        annotation(0, 20, "forward"),
        annotation(30, 9, "forward"),
        annotation(5, 5, "loss"),
        call(1, 1, 1),
        call(6, 1, 2),
        kernel(50, 10, correlation=1),
        kernel(55, 10, correlation=2, stream=9),
        gpu_annotation(50, 10, "forward"),
        gpu_annotation(55, 10, "forward", stream=9),
        gpu_annotation(55, 12, "loss", stream=9),
        gpu_annotation(90, 5, "nothing runs in it"),
    ]


def test_breakdown_of_the_gpu(tmp_path):
    table = analysis(tmp_path, ranges()).get_gpu_user_annotation_breakdown(visualize=False)
    assert [*table] == [*BREAKDOWN]
    assert table["name"].tolist() == ["forward", "loss"]
    forward, loss = table.drop(columns="name").to_numpy().tolist()
    assert forward == [20, 10, 10, 0, 10, 0, 2, 15, 10]
    assert loss == [12, 12, 12, 0, 12, 0, 1, 10, 10]


def test_breakdown_of_the_cpu_and_folding(tmp_path):
    hta = analysis(tmp_path, ranges(), [kernel(0, 5)])
    table = hta.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False)
    assert table["rank"].tolist() == [0, 0]
    rows = table.set_index("name")
    assert rows.loc["forward", ["sum (us)", "max (us)", "min (us)", "count"]].tolist() == [
        *(29, 20, 9, 2)
    ]
    assert rows.loc["forward", "stddev"] == pytest.approx(11 / 2**0.5)
    folded = hta.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, visualize=False, num_kernels=1
    )
    assert folded["name"].tolist() == ["forward", "others"]
    kept = hta.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, visualize=False, num_kernels=1, allowlist_patterns=["^lo"]
    )
    assert kept["name"].tolist() == ["forward", "loss"]


def test_breakdown_without_annotations(tmp_path):
    hta = analysis(tmp_path, [kernel(0, 5)])
    assert hta.get_gpu_user_annotation_breakdown(visualize=False) is None


def aten_events():
    return [
        host(0, 40, "aten::linear"),
        host(5, 30, "aten::addmm"),
        call(10, 2, 1),
        call(20, 2, 2),
        kernel(60, 5, name="relu", correlation=2),
        kernel(50, 5, name="gemm", correlation=1),
        host(100, 20, "aten::mul", tid=300),
        host(100, 20, "aten::addmm"),
        call(104, 2, 3),
        kernel(160, 7, name="gemm", correlation=3),
        call(110, 2, 4),
        kernel(170, 9, name="relu", correlation=4),
        host(200, 10, "aten::copy_"),
        call(202, 2, 5, name="cudaMemcpyAsync"),
        kernel(210, 3, name="Memcpy HtoD", cat="gpu_memcpy", correlation=5),
        host(300, 10, "aten::step"),
        call(302, 2, 6, name="cudaGraphLaunch"),
        kernel(310, 3, name="a", correlation=6),
        kernel(320, 3, name="b", correlation=6),
    ]


def test_aten_operators(tmp_path):
    hta = analysis(tmp_path, aten_events(), [host(0, 5, "aten::mm")])
    tables = hta.get_aten_op_kernels_and_delay([0, 1])
    assert [*tables[0]] == [*tables[1]] == [*ATEN]
    assert tables[1].empty
    assert tables[0].to_numpy().tolist() == [
        ["aten::addmm", "gemm -> relu", 2, 4.5, 48.0, 2, 26.0],
        ["aten::copy_", "Memcpy HtoD", 1, 2.0, 8.0, 1, 3.0],
        ["aten::step", "graph (2 kernels)", 1, 2.0, 8.0, 2, 6.0],
    ]
    without = hta.get_aten_op_kernels_and_delay(include_memory_events=False)[0]
    assert without["aten_op_name"].tolist() == ["aten::addmm", "aten::step"]
    by_time = hta.get_aten_op_kernels_and_delay(sort_by=["avg_runtime_delay", "aten_op_name"])[0]
    assert by_time["aten_op_name"].tolist() == ["aten::addmm", "aten::copy_", "aten::step"]
    with pytest.raises(ParameterError, match="sort_by must be columns of aten_op_name"):
        hta.get_aten_op_kernels_and_delay(sort_by=["duration"])


def queues(folder):
    events = []
    for number in range(6):
        events += [
            call(number * 2, 1, number),
            kernel(20 + number * 10, 8, stream=7 + number % 2, correlation=number),
        ]
    return analysis(folder, events, events)


def test_queue_summary_of_a_series(tmp_path):
    hta = queues(tmp_path)
    series = hta.get_queue_length_time_series([1, 0])
    before = {rank: frame.copy() for rank, frame in series.items()}
    summary = hta.get_queue_length_summary_from_time_series(series)
    assert summary.index.get_level_values("rank").tolist() == [1, 1, 0, 0]
    expected = hta.get_queue_length_summary([0, 1])
    pd.testing.assert_frame_equal(summary.sort_index(), expected.sort_index())
    for rank, frame in series.items():
        pd.testing.assert_frame_equal(frame, before[rank])
    cut = {0: series[0][series[0]["ts"] > 5]}
    assert len(hta.get_queue_length_summary_from_time_series(cut)) == 2
    assert hta.get_queue_length_summary_from_time_series({}) is None


def test_every_stream_has_a_row_for_its_full_queue(tmp_path):
    hta = queues(tmp_path)
    series = hta.get_queue_length_time_series([0, 1])
    table = hta.get_time_spent_blocked_on_full_queue(series, 2)
    assert [*table] == [*BLOCKED]
    expected = defaultdict(float)
    for rank, frame in series.items():
        for stream, rows in frame.groupby("stream"):
            pairs = list(zip(rows["ts"], rows["queue_length"], strict=True))
            for (start, length), (end, _) in pairwise(pairs):
                expected[rank, stream] += (end - start) * (length >= 2)
    rows = table.set_index(["rank", "stream"])
    assert rows["duration_at_max_queue_length"].to_dict() == expected
    assert len(expected) == 4
    share = rows["relative_duration_at_max_queue_length"] * 78
    assert share.to_dict() == pytest.approx(expected)
    assert table["blocked_calls"].sum() == 0
    for nothing in (hta.get_time_spent_blocked_on_full_queue(series), None):
        empty = hta.get_time_spent_blocked_on_full_queue({}) if nothing is None else nothing
        assert empty.empty
        assert [*empty] == [*BLOCKED]


def late_rank(delay):
    """Steps of 100 µs; each rank computes, and all meet in a collective."""
    events = []
    for number in range(4):
        start = 200 * number
        events += [
            step(number, start, 200),
            call(start + 1, 1, 2 * number),
            kernel(start + 3, 60 + delay, name="gemm", correlation=2 * number),
            call(start + 4, 1, 2 * number + 1),
            kernel(
                start + 63 + delay,
                120 - delay,
                name="ncclDevKernel_AllReduce_Sum_f32",
                stream=20,
                correlation=2 * number + 1,
                **{
                    "Collective name": "allreduce",
                    "In msg nelems": 1000,
                    "Out msg nelems": 1000,
                    "Group size": 3,
                    "Process Group Ranks": "[0, 1, 2]",
                    "dtype": "Float",
                },
            ),
        ]
    return events


def test_the_late_rank_is_the_straggler(tmp_path):
    hta = analysis(tmp_path, late_rank(0), late_rank(80), late_rank(0))
    assert hta.get_potential_stragglers() == [1]
    assert hta.get_potential_stragglers([0, 2], num_candidates=0) == [1]
    with pytest.raises(ParameterError, match=r"among the analysed steps \[0, 1, 2\], got \[9\]"):
        hta.get_potential_stragglers([9])


def test_a_healthy_job_has_no_stragglers(tmp_path):
    hta = analysis(tmp_path, late_rank(0), late_rank(0), late_rank(0))
    assert hta.get_potential_stragglers(num_candidates=3) == []


def test_where_it_cannot_be_told_it_says_so(tmp_path, caplog):
    one = tmp_path / "one"
    one.mkdir()
    with caplog.at_level(logging.WARNING):
        assert analysis(one, late_rank(0)).get_potential_stragglers() == []
        assert "a single rank has no other ranks that wait for it" in caplog.text
        apart = tmp_path / "apart"
        apart.mkdir()
        hta = analysis(apart, [kernel(0, 5), kernel(9, 50)], [kernel(0, 9)])
        assert hta.get_potential_stragglers() == []
    assert "so it is unknown which rank" in caplog.text


def test_a_rule_of_your_own(tmp_path):
    hta = analysis(tmp_path, late_rank(0), late_rank(40), late_rank(80))

    def longest_gemm(frame, names, count, visualize):
        assert (count, visualize) == (2, False)
        assert set(frame["iteration"]) == {1}
        assert set(frame["s_name"]) == {names[code] for code in frame["name"]}
        gemm = frame[frame["s_name"] == "gemm"]
        return gemm.groupby("rank")["dur"].max() - 60

    found = hta.get_potential_stragglers([1], straggler_identification_impl=longest_gemm)
    assert found == [2, 1]


def test_figures_are_shown(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "plotly.graph_objects.Figure.show", lambda _, renderer=None: shown.append(renderer)
    )
    hta = analysis(tmp_path, late_rank(0), late_rank(80), late_rank(0))
    hta.get_potential_stragglers(visualize=True)
    hta.get_aten_op_kernels_and_delay(visualize=True)
    assert shown == [None, None]
    folder = tmp_path / "annotated"
    folder.mkdir()
    analysis(folder, ranges()).get_gpu_user_annotation_breakdown(image_renderer="json")
    assert shown[2:] == ["json"]
