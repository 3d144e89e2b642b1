"""Performance counters and the operators that they belong to."""

from __future__ import annotations

import math

import pytest

from hta_widgets.analyses.cupti_counters import cupti_counters
from hta_widgets.errors import UnknownRankError, UnknownStepError
from hta_widgets.trace_analysis import TraceAnalysis
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, host, kernel, step, write


def measured(ts, name="k", *, correlation=None, **counters):
    event = kernel(ts, 5, name=name, cat="cuda_profiler_range")
    given = {} if correlation is None else {"correlation": correlation}
    return event | {"args": given | {key.replace("_", "."): n for key, n in counters.items()}}


def operators(result):
    columns = ("top_level_op", "bottom_level_op", "op_stack")
    return list(zip(*(result.ranges[name].tolist() for name in columns), strict=True))


def test_in_order_of_the_launches(tmp_path):
    events = [
        host(0, 9, "aten::linear"),
        host(1, 7, "linear.py(3): forward", cat="python_function"),
        host(2, 5, "aten::addmm"),
        call(3, 1, 1),
        call(20, 1, 2),
        measured(100, "first", inst_sum=3, cycles_avg=0.5),
        measured(105, "second", inst_sum=4),
    ]
    result = cupti_counters(open_job(tmp_path, [events]))
    assert result.counters == ("cycles.avg", "inst.sum")
    assert result.ranges["name"].tolist() == ["first", "second"]
    assert operators(result) == [
        ("aten::linear", "aten::addmm", ["aten::linear", "aten::addmm"]),
        (None, None, []),
    ]
    assert result.ranges["index_runtime"].tolist() == [3, 4]
    assert result.ranges["inst.sum"].tolist() == [3, 4]
    assert math.isnan(result.ranges["cycles.avg"][1])
    assert result.operators.to_dict("records") == [
        {"level": level, "operator": operator, "counter": counter} | {"kernels": 1} | both
        for level, inner in (("top_level_op", "aten::linear"), ("bottom_level_op", "aten::addmm"))
        for counter, operator, both in (
            ("cycles.avg", inner, {"sum": 0.5, "mean": 0.5}),
            ("inst.sum", None, {"sum": 4.0, "mean": 4.0}),
            ("inst.sum", inner, {"sum": 3.0, "mean": 3.0}),
        )
    ]
    assert result.finding == (
        "The profiler measured 2 counters for 2 kernels on rank 0; the top-level operator "
        "aten::linear launched 1 of these."
    )


def test_counters_of_whole_numbers_stay_whole_in_the_tables_of_hta(tmp_path):
    events = [
        *(host(0, 9, "a"), call(1, 1, 1), call(3, 1, 2)),
        measured(100, whole=3, part=0.5, some=1, large=2**40),
        measured(105, whole=4, part=2, large=7),
    ]
    write(tmp_path / "rank-0.json", events)
    (table,) = TraceAnalysis(trace_dir=tmp_path).get_cupti_counter_data_with_operators()
    kinds = {name: table[name].dtype.kind for name in ("whole", "part", "some", "large")}
    assert kinds == {"whole": "i", "part": "f", "some": "f", "large": "i"}
    assert table["large"].tolist() == [2**40, 7]
    frame = TraceAnalysis(trace_dir=tmp_path).t.get_trace(0)
    assert frame["some"].tolist() == [-1, -1, -1, 1, -1]
    assert frame["whole"].dtype.kind == "i"


def test_by_correlation_where_there_is_one(tmp_path):
    events = [host(0, 9, "a"), call(1, 1, 5), host(10, 9, "b"), call(11, 1, 6)]
    events += [measured(50, correlation=6, inst=1), measured(60, correlation=5, inst=2)]
    result = cupti_counters(open_job(tmp_path, [events]))
    assert result.ranges["top_level_op"].tolist() == ["b", "a"]
    assert result.counters == ("inst",)


def test_a_driver_call_inside_a_runtime_call_is_the_same_launch(tmp_path):
    events = [
        host(0, 9, "a"),
        call(1, 6, 1),
        call(2, 2, 1, name="cuLaunchKernel", cat="cuda_driver"),
        call(8, 1, 2, name="cudaMemcpyAsync"),
        host(10, 9, "triton"),
        call(11, 1, 3, name="cuLaunchKernelEx", cat="cuda_driver"),
        measured(50, inst=1),
        measured(60, inst=1),
    ]
    result = cupti_counters(open_job(tmp_path, [events]))
    assert result.ranges["top_level_op"].tolist() == ["a", "triton"]
    assert result.finding.endswith("2 top-level operators launched 2 of these, most of all a (1).")


def test_where_the_counts_differ_the_counters_stay(tmp_path):
    """Spec C9: HTA drops the rank."""
    events = [host(0, 9, "a"), call(1, 1, 5), measured(50, inst=1), measured(60, inst=2)]
    result = cupti_counters(open_job(tmp_path, [events]))
    assert result.ranges["inst"].tolist() == [1, 2]
    assert operators(result) == [(None, None, [])] * 2
    assert result.notices[-1] == (
        "rank 0: no operators for 2 measured kernels, which cannot be matched by order to 1 kernel "
        "launch"
    )
    assert "no kernel could be matched" in result.finding


def test_the_step_filter_goes_by_the_launch(tmp_path):
    """The profiler spreads its measurements over the time as it likes."""
    events = [step(1, 0, 10), step(2, 10, 10)]
    events += [host(1, 5, "a"), call(2, 1, 1), host(11, 5, "b"), call(12, 1, 2)]
    events += [measured(500, inst=1), measured(505, inst=2)]
    result = cupti_counters(open_job(tmp_path, [events]))
    assert result.ranges["top_level_op"].tolist() == ["a"]


def test_without_counters(tmp_path):
    job = open_job(tmp_path, [[host(0, 1, "op")], [call(0, 1, 1), measured(5, inst=1)]])
    result = cupti_counters(job, [0])
    assert "no cuda_profiler_range events" in result.finding
    assert result.ranges.empty
    assert result.operators.empty
    assert {"rank", "op_stack"} <= set(result.ranges.columns)
    assert cupti_counters(job).ranges["rank"].tolist() == [1]
    with pytest.raises(UnknownRankError):
        cupti_counters(job, [7])


def stepwise(tmp_path):
    """One kernel launched in each of three steps, and measured long after; the last is left out."""
    marks = [step(n, 100 * n, 100) for n in range(4)]
    calls = [call(100 * n + 10, 1, n + 1) for n in range(4)]
    ranges = [measured(1000 + n, f"k{n}", inst=10**n) for n in range(4)]
    return open_job(tmp_path, [[*marks, *calls, *ranges]])


@pytest.mark.parametrize(
    ("time", "names"),
    [
        ({}, ["k0", "k1", "k2"]),
        ({"steps": [1]}, ["k1"]),
        ({"steps": [0, 2]}, ["k0", "k2"]),
        ({"window_ns": (110_000, 210_000)}, ["k1"]),
        ({"window_ns": (110_001, 210_001)}, ["k2"]),
        ({"steps": [1, 2], "window_ns": (0, 110_001)}, ["k1"]),
        ({"window_ns": (400_000, 900_000)}, []),
    ],
)
def test_steps_and_windows_choose_by_the_launch(tmp_path, time, names):
    result = cupti_counters(stepwise(tmp_path), **time)
    assert result.ranges["name"].tolist() == names
    assert result.operators["sum"].sum() == 2 * sum(10 ** int(name[1]) for name in names)


def test_a_step_that_no_rank_has_is_an_error(tmp_path):
    with pytest.raises(UnknownStepError):
        cupti_counters(stepwise(tmp_path), steps=[7])
