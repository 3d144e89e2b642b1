"""Operators against brute force, their sums, and what is said where something is missing."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses import OperatorTable, idle_owners, operators
from hta_widgets.analyses.operators import (
    LAUNCH_CALLS_INSTEAD,
    NO_OPERATORS,
    NO_SHAPES,
    NO_STACKS,
)
from hta_widgets.analyses.operators.operator_calls import counted_calls
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.errors import ParameterError, UnknownRankError, UnknownStepError
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_idle_owners import annotation, frame
from tests.analyses.test_modules import modules_and_work
from tests.kineto_text import call, host, kernel, step
from tests.nsys_export import KERNEL, NVTX, RUNTIME, STRINGS, nvtx, strings, write_sqlite
from tests.nsys_export import call as nsys_call
from tests.nsys_export import kernel as nsys_kernel
from tests.raw_modules import RawModules
from tests.raw_operators import RawOperators

SUMMED = (
    *("calls", "cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns", "gpu_work"),
    *("backward_gpu_ns", "idle_ns"),
)
NAMES = (
    *("aten::mm", "aten::linear", "aten::add", "autograd::engine::evaluate_function: MmBackward0"),
    *("MmBackward0", "Optimizer.step#SGD.step", "nn.Module: Linear_0", "train.py(3): step"),
    *("torch/nn/modules/module.py(1): call", "<built-in method mm>", "ProfilerStep#1"),
    "ProfilerStep#2",
)
CATEGORIES = ("cpu_op", "cpu_op", "cpu_op", "user_annotation", "python_function")
KERNELS = ("ampere_sgemm_32x32", "cutlass_80_tensorop_s1688gemm", "elementwise_kernel", "ncclX")


def op(ts, dur, name, *, sequence=None, thread=0, dims=None, **where):
    event = host(ts, dur, name, **where)
    arguments = {}
    if sequence is not None:
        arguments |= {"Sequence number": sequence, "Fwd thread id": thread}
    if dims is not None:
        arguments |= {"Input Dims": dims, "Input type": ["float"]}
    return {**event, "args": arguments} if arguments else event


@st.composite
def operator_calls(draw):
    starts, lengths = st.integers(0, 90), st.integers(0, 40)
    threads = st.sampled_from([1, 1, 2])
    events = []
    for _ in range(draw(st.integers(1, 12))):
        category, name = draw(st.sampled_from(CATEGORIES)), draw(st.sampled_from(NAMES))
        place = {"tid": draw(threads), "cat": category}
        if category != "cpu_op":
            events.append(host(draw(starts), draw(lengths), name, **place))
            continue
        numbered = {
            "sequence": draw(st.sampled_from([None, 0, 1, 2])),
            "thread": draw(st.sampled_from([0, 0, 1])),
            "dims": draw(st.sampled_from([None, [[2, 3]], [[4, 3], []]])),
        }
        events.append(op(draw(starts), draw(lengths), name, **numbered, **place))
    for number in range(draw(st.integers(0, 6))):
        if draw(st.integers(0, 5)):
            events.append(call(draw(starts), draw(lengths), number, tid=draw(threads)))
        events += [
            kernel(
                draw(st.integers(0, 120)),
                draw(st.integers(0, 20)),
                name=draw(st.sampled_from(KERNELS)),
                cat=draw(st.sampled_from(["kernel", "kernel", "gpu_memcpy"])),
                device=draw(st.sampled_from([0, 0, 1])),
                correlation=number,
            )
            for _ in range(draw(st.integers(1, 2)))
        ]
    return draw(st.permutations(events))


def rows_of(table, *keys):
    """Sums by key, and kernels as a number."""
    kernels = (table["kernels_per_call"].fillna(0) * table["calls"]).round().astype("int64")
    sums = table.assign(kernels=kernels).groupby([*keys])[[*SUMMED, "kernels"]].sum()
    rows = sums.to_dict("index")
    return {key if isinstance(key, tuple) else (key,): row for key, row in rows.items()}


def check_sums(job, result):
    table, ranks = result.operators, result.ranks.set_index("rank")
    own = table.groupby("rank")[["gpu_self_ns", "idle_ns"]].sum().reindex(ranks.index, fill_value=0)
    rest = ranks["outside_operators_ns"] + ranks["launch_not_recorded_ns"]
    assert (own["gpu_self_ns"] + rest == ranks["gpu_ns"]).all()
    for rank in ranks.index:
        assert job.gpu_work(rank).duration_ns.sum() == ranks.loc[rank, "gpu_ns"]
    idle = idle_owners(job).devices.groupby("rank")["idle_ns"].sum()
    idle = idle.reindex(ranks.index, fill_value=0)
    assert (ranks["idle_ns"] == idle).all()
    assert (own["idle_ns"] + ranks["idle_outside_operators_ns"] == idle).all()
    assert (table["gpu_total_ns"] >= table["gpu_self_ns"]).all()
    assert (table["cpu_total_ns"] >= table["cpu_self_ns"]).all()
    assert (table["cpu_self_ns"] >= 0).all()


@given(operator_calls())
def test_against_brute_force(tmp_path_factory, events):
    job = open_job(tmp_path_factory.mktemp("operators"), [events])
    raw, result = RawOperators(events), operators(job)
    assert rows_of(result.operators, "operator", "phase") == raw.rows_by(
        lambda each: each.name, raw.phase
    )
    outside = result.ranks[["outside_operators_ns", "launch_not_recorded_ns"]]
    assert [*outside.loc[0]] == [*raw.outside_ns()]
    check_sums(job, result)
    by_shape, by_stack = operators(job, by="shape"), operators(job, by="stack")
    keys = ("operator", "phase", "input_dims", "input_types")
    assert rows_of(by_shape.operators, *keys) == raw.rows_by(
        lambda each: each.name,
        raw.phase,
        lambda each: raw.shape(each)[0],
        lambda each: raw.shape(each)[1],
    )
    assert rows_of(by_stack.operators, "operator", "phase", "path") == raw.rows_by(
        lambda each: each.name, raw.phase, raw.stack
    )
    check_sums(job, by_shape)
    check_sums(job, by_stack)


def gpu_time_of(raw, path):
    """GPU time by operator of what belongs to a module or to one inside it."""
    found = Counter()
    for work in raw.analysed:
        around = work["call"]
        while around is not None and around.kind != "op":
            around = around.parent
        if around is not None and raw.node(around)[0][: len(path)] == path:
            found[around.name] += work["end"] - work["start"]
    return Counter({name: ns for name, ns in found.items() if ns})


@given(modules_and_work(), st.sampled_from(["instance", "class"]))
def test_those_of_a_module(tmp_path_factory, events, merge):
    job = open_job(tmp_path_factory.mktemp("operators"), [events])
    raw = RawModules(events, merge=merge)
    every = [each for calls in raw.threads.values() for each in calls]
    for path in {raw.node(each)[0] for each in every} - {()}:
        result = operators(job, modules=[" › ".join(path)])
        found = result.operators.groupby("operator")["gpu_self_ns"].sum()
        assert found[found > 0].to_dict() == gpu_time_of(raw, path)
        pd.testing.assert_frame_equal(result.ranks, operators(job).ranks)


@given(operator_calls(), st.integers(1, 60), st.integers(61, 130))
def test_parts_of_the_time_add_up(tmp_path_factory, events, first, second):
    """Every ns is in one of the windows, and calls count where they start."""
    job = open_job(tmp_path_factory.mktemp("operators"), [events])
    edges = [-10_000, first * 1000, second * 1000, 10_000_000]
    parts = [operators(job, window_ns=window) for window in pairwise(edges)]
    whole = operators(job, window_ns=(edges[0], edges[-1]))
    columns = ["calls", "cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns", "idle_ns"]
    together = pd.concat([part.operators for part in parts])
    sums = together.groupby(["operator", "phase"])[columns].sum().sort_index()
    expected = whole.operators.groupby(["operator", "phase"])[columns].sum().sort_index()
    pd.testing.assert_frame_equal(sums, expected, check_index_type=len(sums) > 0)
    totals = sum(part.ranks.drop(columns="rank").to_numpy() for part in parts)
    assert np.array_equal(totals, whole.ranks.drop(columns="rank").to_numpy())


def two_steps():
    """Two steps that are analysed: an operator of 10 µs in each, and one across their border."""
    return [
        *(step(number, number * 100, 100) for number in range(3)),
        op(10, 10, "aten::mm"),
        call(12, 2, 1),
        kernel(30, 40, correlation=1),
        op(90, 20, "aten::add"),
        op(110, 10, "aten::mm"),
        call(112, 2, 2),
        kernel(130, 60, correlation=2),
    ]


def test_a_window_looks_at_the_calls_that_are_open_in_it(tmp_path):
    """And at those that its work, its idle time and its backward operators belong to."""
    events = [host(100 * place, 90, f"op{place % 3}") for place in range(200)]
    for place in range(200):
        events += [call(100 * place + 10, 5, place + 1)]
        events += [kernel(100 * place + 30, 20, correlation=place + 1)]
    job = open_job(tmp_path, [events])
    rank, whole = job.rank(0), operators(job).operators
    excerpt = TimeSelection.of(job, [0], window_ns=(5_000_000, 5_300_000))
    assert 3 <= counted_calls(rank, excerpt).size <= 6
    assert counted_calls(rank, None).size == 200
    few = operators(job, window_ns=(5_000_000, 5_300_000)).operators
    assert few["calls"].sum() == 3
    assert few["gpu_self_ns"].sum() == 3 * 20_000
    assert whole["calls"].sum() == 200


def test_steps(tmp_path):
    job = open_job(tmp_path, [two_steps()])
    rows = {
        number: operators(job, steps=[number]).operators.set_index("operator") for number in (0, 1)
    }
    assert rows[0].loc["aten::mm", ["calls", "cpu_self_ns", "gpu_self_ns"]].tolist() == [
        *(1, 10_000, 40_000)
    ]
    assert rows[1].loc["aten::mm", ["calls", "cpu_self_ns", "gpu_self_ns"]].tolist() == [
        *(1, 10_000, 60_000)
    ]
    assert rows[0].loc["aten::add", ["calls", "cpu_self_ns"]].tolist() == [1, 10_000]
    assert rows[1].loc["aten::add", ["calls", "cpu_self_ns"]].tolist() == [0, 10_000]
    assert np.isnan(rows[1].loc["aten::add", "kernels_per_call"])


def test_a_recursive_operator_counts_once(tmp_path):
    events = [
        op(0, 100, "aten::add", dims=[[1]]),
        op(10, 50, "aten::mul"),
        op(20, 30, "aten::add", dims=[[2]]),
        call(25, 5, 1),
        kernel(60, 7, correlation=1),
    ]
    job = open_job(tmp_path, [events])
    row = operators(job).operators.set_index("operator").loc["aten::add"]
    assert row[["calls", "cpu_self_ns", "cpu_total_ns", "gpu_total_ns"]].tolist() == [
        *(2, 80_000, 100_000, 7_000)
    ]
    by_shape = operators(job, by="shape").operators.set_index("input_dims")
    assert by_shape.loc["[[2]]", ["cpu_total_ns", "gpu_total_ns"]].tolist() == [30_000, 7_000]
    assert by_shape.loc["[[1]]", ["cpu_total_ns", "gpu_total_ns"]].tolist() == [70_000, 0]


@pytest.mark.parametrize("indent", [None, 4])
def test_shapes_are_on_one_line_however_the_trace_is_laid_out(tmp_path, indent):
    events = [op(0, 10, "aten::mm", dims=[[2, 3], []]), call(2, 3, 1), kernel(6, 3, correlation=1)]
    trace = {"distributedInfo": {"rank": 0}, "traceEvents": events}
    (tmp_path / "rank0.json").write_text(json.dumps(trace, indent=indent), encoding="utf-8")
    row = operators(open_trace(tmp_path), by="shape").operators.iloc[0]
    assert row[["input_dims", "input_types"]].tolist() == ["[[2, 3], []]", '["float"]']


def test_backward_time_belongs_to_the_forward_operator(tmp_path):
    events = [
        op(0, 10, "aten::mm", sequence=5, dims=[[3, 3]]),
        op(20, 10, "autograd::engine::evaluate_function: MmBackward0", tid=2),
        op(21, 8, "MmBackward0", sequence=5, thread=1, tid=2),
        op(22, 6, "aten::mm", tid=2),
        call(23, 2, 1, tid=2),
        kernel(40, 9, correlation=1),
    ]
    table = operators(open_job(tmp_path, [events])).operators
    rows = table.set_index(["operator", "phase"])
    assert rows.loc[("aten::mm", "other"), "backward_gpu_ns"] == 9_000
    assert rows.loc[("aten::mm", "backward"), "gpu_self_ns"] == 9_000
    assert rows["backward_gpu_ns"].sum() == 9_000


def test_tensor_cores(tmp_path):
    kernels = ["ampere_sgemm_32x32_tn", "cutlass_80_tensorop_s1688tf32gemm_128x128", "splitKreduce"]
    events = [op(0, 50, "aten::mm"), op(60, 20, "aten::add"), op(90, 9, "aten::bmm")]
    for number, name in enumerate(kernels, 1):
        events += [call(number * 5, 2, number), kernel(100 + number * 10, number, name=name)]
        events[-1]["args"]["correlation"] = number
    events += [call(65, 2, 9), kernel(200, 5, name="vectorized_elementwise_kernel", correlation=9)]
    rows = operators(open_job(tmp_path, [events])).operators.set_index("operator")
    assert rows.loc["aten::mm", "tensor_core_ns"] == 2_000
    assert rows.loc["aten::mm", "tensor_core_percent"] == pytest.approx(200 / 3)
    assert rows["eligible"].to_dict() == {"aten::mm": True, "aten::add": False, "aten::bmm": True}
    assert np.isnan(rows.loc["aten::add", "tensor_core_percent"])


@pytest.mark.parametrize(
    ("name", "eligible"),
    [
        *((name, True) for name in ("aten::linear", "aten::_scaled_mm", "aten::conv2d")),
        *((name, True) for name in ("aten::cudnn_convolution", "aten::convolution_backward")),
        *((name, True) for name in ("aten::_scaled_dot_product_flash_attention", "aten::baddbmm")),
        *((name, False) for name in ("aten::add", "aten::convert", "aten::mmm", "my::mm")),
    ],
)
def test_operators_that_multiply_matrices(tmp_path, name, eligible):
    table = operators(open_job(tmp_path, [[op(0, 1, name)]])).operators
    assert table["eligible"].tolist() == [eligible]


def test_stacks_leave_out_pytorch_and_built_in_functions(tmp_path):
    frames = [frame(place, 100 - place, f"model.py({place}): f") for place in range(6)]
    others = [
        frame(6, 80, "torch/nn/modules/linear.py(116): forward"),
        frame(7, 70, "<built-in mm>"),
    ]
    job = open_job(tmp_path, [[*frames, *others, op(8, 5, "aten::mm")]])
    assert operators(job, by="stack").operators["path"].tolist() == [
        " › ".join(f"model.py({place}): f" for place in range(1, 6))
    ]


def test_stacks_that_are_texts_of_operators(tmp_path):
    """Traces of 2021 and 2022: the innermost frame is the first, and there may be none."""
    stacks = (
        "torch/nn/functional.py(1847): linear;model.py(30): forward;train.py(8): step;",
        "model.py(30): forward;<built-in method run>;train.py(8): step;",
        "",
    )
    operators_of = [
        host(20 * place, 10, "aten::mm") | {"args": {"Call stack": stack, "Concrete Inputs": [""]}}
        for place, stack in enumerate(stacks)
    ]
    job = open_job(tmp_path, [[*operators_of, host(80, 10, "aten::add")]])
    result = operators(job, by="stack")
    found = result.operators.set_index(["operator", "path"])["calls"].to_dict()
    assert found == {
        ("aten::mm", "train.py(8): step › model.py(30): forward"): 2,
        ("aten::mm", ""): 1,
        ("aten::add", ""): 1,
    }
    assert NO_STACKS not in result.notices


def test_missing_things_are_said_once_with_the_option_that_records_them(tmp_path):
    job = open_job(tmp_path, [[op(0, 5, "aten::mm")], [op(0, 5, "aten::mm")]])
    assert operators(job).notices == job.notices
    assert operators(job, by="shape").notices == (*job.notices, NO_SHAPES)
    assert operators(job, by="stack").notices == (*job.notices, NO_STACKS)
    assert "record_shapes=True" in NO_SHAPES
    assert "with_stack=True" in NO_STACKS


def test_without_operators_launch_calls_are_listed(tmp_path):
    events = [call(0, 5, 1), kernel(10, 4, correlation=1), call(20, 5, 2), kernel(30, 3)]
    job = open_job(tmp_path, [events])
    result = operators(job)
    assert result.operators.empty
    assert [*result.operators] == [*result.launch_calls] == [*operators(job).rows]
    (row,) = result.launch_calls.to_dict("records")
    assert (row["operator"], row["calls"], row["gpu_self_ns"]) == ("cudaLaunchKernel", 1, 4_000)
    assert result.ranks.drop(columns=["idle_ns", "idle_outside_operators_ns"]).to_dict(
        "records"
    ) == [
        {"rank": 0, "gpu_ns": 7_000, "outside_operators_ns": 4_000, "launch_not_recorded_ns": 3_000}
    ]
    assert result.notices[-2:] == (NO_OPERATORS, LAUNCH_CALLS_INSTEAD)
    check_sums(job, result)


def test_an_empty_trace(tmp_path):
    job = open_job(tmp_path, [[annotation(0, 5, "train")]])
    result = operators(job, by="stack")
    assert isinstance(result, OperatorTable)
    assert result.operators.empty
    assert result.finding == "No operators or launch calls were recorded on the selected ranks."


def test_findings(tmp_path):
    mm = [op(0, 10, "aten::mm"), call(2, 2, 1), kernel(20, 60, correlation=1)]

    def finding(events):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return operators(open_job(folder, [events])).finding

    assert finding(mm) == (
        "Of 60 µs of GPU time, aten::mm takes the most: 60 µs (100 %) in 1 call."
    )
    outside = [*mm, call(12, 2, 2), kernel(90, 90, correlation=2)]
    assert finding(outside) == (
        "Of 150 µs of GPU time, 60 % was launched outside operators; aten::mm takes the most: "
        "60 µs (40 %) in 1 call."
    )
    unknown = [*mm, kernel(90, 20)]
    assert finding(unknown) == (
        "Of 80 µs of GPU time, aten::mm takes the most: 60 µs (75 %) in 1 call; 25 % has no "
        "recorded launch."
    )
    assert finding([op(0, 10, "aten::mm")]) == (
        "Of 10 µs of CPU time, aten::mm takes the most: 10 µs (100 %) in 1 call."
    )


def test_work_that_was_launched_before_the_window_is_in_no_call(tmp_path):
    events = [op(0, 10, "aten::mm"), call(2, 2, 1), kernel(20, 60, correlation=1)]
    job = open_job(tmp_path, [events])
    assert operators(job, window_ns=(40_000, 60_000)).finding == (
        "Of 20 µs of GPU time, aten::mm takes the most: 20 µs (100 %)."
    )


def test_ranks_and_phases(tmp_path):
    job = open_job(tmp_path, [two_steps(), [op(0, 5, "Optimizer.step#SGD.step")]])
    assert set(operators(job).operators["rank"]) == {0, 1}
    chosen = operators(job, [1], phase="optimizer")
    assert chosen.operators["operator"].tolist() == ["Optimizer.step#SGD.step"]
    forward = operators(job, [1], phase="forward")
    assert forward.operators.empty
    assert forward.finding.startswith("No operators or launch calls of the phase forward were ")


def test_arguments_are_checked(tmp_path):
    job = open_job(tmp_path, [two_steps()])
    with pytest.raises(ParameterError, match="by must be one of 'name', 'shape', 'stack'"):
        operators(job, by="module")
    with pytest.raises(ParameterError, match="phase must be one of forward, backward"):
        operators(job, phase="warm-up")
    with pytest.raises(UnknownRankError):
        operators(job, [7])
    with pytest.raises(UnknownStepError):
        operators(job, steps=[9])
    with pytest.raises(ParameterError):
        operators(job, window_ns=(5, 5))


def test_names_of_a_trace_stay_as_they_are(tmp_path):
    name = "<b>aten::mm</b>"
    result = operators(open_job(tmp_path, [[op(0, 5, name)]]))
    assert result.operators["operator"].tolist() == [name]
    json.dumps(result.operators.to_dict("list"), default=str)


def test_a_format_without_operators_is_not_told_how_to_record_them(real_traces):
    path = real_traces / "nsys" / "healthy_1pct.sqlite"
    job = open_trace(path, progress=False)
    for by in ("name", "shape", "stack"):
        notices = operators(job, by=by).notices
        assert notices[-2:] == (
            "an Nsight Systems export has no operators",
            LAUNCH_CALLS_INSTEAD,
        )


def test_ranges_for_operators_have_no_options_of_the_profiler(tmp_path):
    tables = {
        STRINGS: strings("gemm", "cudaLaunchKernel"),
        KERNEL: [nsys_kernel(40, 60, correlation=1)],
        RUNTIME: [nsys_call(10, 20, correlation=1)],
        NVTX: [nvtx(0, 30, "aten::mm")],
    }
    job = open_trace(write_sqlite(tmp_path / "mm.sqlite", tables), progress=False)
    notices = [operators(job, by=by).notices[-1] for by in ("shape", "stack")]
    assert notices == ["no shapes were recorded", "no Python frames were recorded"]
