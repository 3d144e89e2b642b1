"""Roofline of traces that are written by hand: owners of kernels, bounds, and what is missing."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.roofline import over_ranks, roofline
from hta_widgets.analyses.roofline.formulas import COMPUTING, NEEDS_VALUES
from hta_widgets.analyses.roofline.peaks import peak_of
from hta_widgets.trace.loaders.kineto.side_tables import COSTED_BY_VALUES
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.test_roofline_formulas import HALF
from tests.conftest import traces_or_skip
from tests.kineto_text import call, host, kernel, step, write

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85 * 10**9}]


def operator(ts, dur, name, dims, *, types=None, values=None):
    args = {"Input Dims": dims, "Input type": types or [HALF if each else "" for each in dims]}
    args |= {} if values is None else {"Concrete Inputs": values}
    return host(ts, dur, name) | {"args": args}


def launch(ts, dur, correlation, *, name="nvjet_tst", at=None):
    """A call that launches a kernel, and the kernel."""
    begin = ts + 1000 if at is None else at
    return [call(ts, 1, correlation), kernel(begin, dur, name=name, correlation=correlation)]


def opened(folder, events, **metadata):
    folder.mkdir(exist_ok=True)
    write(folder / "rank-0.json", events, **metadata)
    return open_trace(folder, progress=False)


def test_values_that_formulas_need_are_loaded(tmp_path):
    """None of them is read from the file a second time."""
    assert NEEDS_VALUES == COSTED_BY_VALUES
    values = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]
    inner = operator(1, 8, "aten::add", [[2, 3], [3, 5]], values=["?", "?"])
    dims = [[1, 2, 5, 5], [3, 2, 3, 3], [], [], [], [], [], [], []]
    events = [operator(0, 10, "aten::convolution", dims, values=values), inner]
    job = opened(tmp_path, [*events, *launch(0.5, 7, 1), *launch(2, 7, 2)])
    (tmp_path / "rank-0.json").unlink()
    assert roofline(job).operators["flop"].sum() == 2 * (3 * 3) * (3 * 2 * 3 * 3)
    texts = job.rank(0).trace.events.side["operators"].columns["concrete_inputs"]
    assert [texts.values[code] for code in texts.codes] == [json.dumps(values), ""]


REASONED = [
    ("aten::mm", [[2, 3], [4, 5]], None, None, "shapes or types not understood"),
    ("aten::mm", [[2, 3], [3, 5]], ["c10::Float4"] * 2, None, "shapes or types not understood"),
    ("aten::add", [[2], [3]], None, None, "shapes or types not understood"),
    ("aten::mm", [], None, None, "shapes not recorded"),
    ("aten::convolution", [[1, 1, 1, 1]] * 2, None, None, "values of inputs not recorded"),
    ("aten::convolution", [[1, 1, 1, 1]] * 2, None, ["?"] * 9, "shapes or types not understood"),
    ("aten::sort", [[2, 3]], None, None, "no formula"),
]


@pytest.mark.parametrize("of_operator", REASONED)
def test_what_is_not_counted(tmp_path, of_operator):
    name, dims, types, values, reason = of_operator
    events = [operator(0, 10, name, dims, types=types, values=values), *launch(1, 7, 1)]
    result = roofline(opened(tmp_path, events))
    assert result.operators.empty
    assert result.uncounted[["operator", "reason", "gpu_ns"]].to_numpy().tolist() == [
        [name, reason, 7000]
    ]
    assert result.uncounted["share_percent"].tolist() == [100]


def test_kernels_without_an_operator_or_a_launch(tmp_path):
    ring = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    events = [
        *launch(1, 5, 1),
        kernel(2000, 3),
        host(10, 5, "c10d::allreduce_"),
        *launch(11, 4, 2, name=ring, at=3000),
    ]
    uncounted = roofline(opened(tmp_path, events)).uncounted
    assert dict(zip(uncounted["reason"], uncounted["gpu_ns"], strict=True)) == {
        "outside operators": 5000,
        "communication": 4000,
        "launch not recorded": 3000,
    }


def test_kernels_alone(tmp_path):
    assert roofline(opened(tmp_path, [kernel(0, 1)])).uncounted["gpu_ns"].tolist() == [1000]


def products(count=4):
    """Matrix products of 1024 × 512 × 2048 with two kernels each."""
    events = []
    for number in range(count):
        at = 20 * number
        events += [
            host(at, 12, "aten::linear"),
            operator(at + 1, 10, "aten::mm", [[1024, 512], [512, 2048]]),
            *launch(at + 2, 100, 2 * number + 1, at=1000 + 200 * number),
            host(at + 4, 3, "aten::fill_"),
            *launch(at + 5, 20, 2 * number + 2, at=1150 + 200 * number),
        ]
    return events


def test_a_product_under_the_roof_of_an_h100(tmp_path):
    """Each call counts once although it launches two kernels; all numbers by hand."""
    result = roofline(opened(tmp_path, products(), deviceProperties=H100))
    (row,) = result.operators.to_dict("records")
    flop, moved = 4 * 2 * 1024 * 512 * 2048, 4 * 2 * (1024 * 512 + 512 * 2048 + 1024 * 2048)
    assert (row["operator"], row["calls"], row["kernels"]) == ("aten::mm", 4, 8)
    assert (row["flop"], row["bytes"], row["gpu_ns"]) == (flop, moved, 480_000)
    assert row["input_dims"] == "[[1024, 512], [512, 2048]]"
    assert row["tflops"] == pytest.approx(flop / 480e-6 / 1e12)
    assert row["gb_per_s"] == pytest.approx(moved / 480e-6 / 1e9)
    assert row["intensity"] == pytest.approx(flop / moved)
    by_memory_s, by_computing_s = moved / 3350e9, flop / 989e12
    assert row["bound"] == ("compute" if by_computing_s > by_memory_s else "memory")
    assert row["percent_of_peak"] == pytest.approx(100 * max(by_memory_s, by_computing_s) / 480e-6)
    assert row["dtype"] == "bf16"
    (device,) = result.devices.to_dict("records")
    window_s = device["window_ns"] / 1e9
    assert device["mfu_percent"] == pytest.approx(100 * by_computing_s / window_s)
    assert device["coverage_percent"] == 100
    assert result.peak is peak_of("NVIDIA H100 80GB HBM3")
    assert result.finding.endswith(" of the peak of NVIDIA H100 80GB HBM3.")


def test_the_mfu_is_a_lower_bound_where_not_all_is_counted(tmp_path):
    events = [*products(), operator(500, 10, "aten::sort", [[5]]), *launch(501, 900, 99, at=5000)]
    finding = roofline(opened(tmp_path, events, deviceProperties=H100)).finding
    assert "is at least " in finding
    assert finding.endswith(
        "65.2 % of the kernel time is not counted (65.2 %: no formula, most of it aten::sort)."
    )


def test_short_kernels_far_from_the_peak_are_bound_by_launching(tmp_path):
    events = [operator(0, 10, "aten::mm", [[8, 8], [8, 8]]), *launch(1, 3, 1)]
    result = roofline(opened(tmp_path, events, deviceProperties=H100))
    assert result.operators["bound"].tolist() == ["launch"]


@pytest.mark.parametrize(
    ("kernel_name", "dtype"),
    [("ampere_sgemm_128x64_tn", "fp32"), ("cutlass_80_tensorop_s1688tf32gemm_x", "tf32")],
)
def test_the_peak_of_fp32_is_that_of_its_kernel(tmp_path, kernel_name, dtype):
    dims = [[512, 512], [512, 512]]
    events = [
        operator(0, 10, "aten::mm", dims, types=["float"] * 2),
        *launch(1, 50, 1, name=kernel_name),
    ]
    (row,) = roofline(opened(tmp_path, events, deviceProperties=H100)).operators.to_dict("records")
    assert row["dtype"] == dtype


def test_devices_that_are_not_listed_are_like_the_others_if_these_are_alike(tmp_path):
    other = [{"id": 7, "name": "NVIDIA L4"}]
    for listed, name in ((H100, "NVIDIA H100 80GB HBM3"), (H100 + other, "")):
        events = [operator(0, 10, "aten::mm", [[8, 8], [8, 8]]), call(1, 1, 1)]
        events += [kernel(5, 50, correlation=1, device=3)]
        result = roofline(opened(tmp_path, events, deviceProperties=listed))
        assert result.devices["name"].tolist() == [name]


def test_without_a_known_peak_nothing_is_guessed(tmp_path):
    unknown = [{"id": 0, "name": "NVIDIA H900"}]
    result = roofline(opened(tmp_path, products(), deviceProperties=unknown))
    assert result.peak is None
    assert result.operators["bound"].tolist() == ["unknown"]
    assert result.operators["percent_of_peak"].isna().all()
    assert result.devices["mfu_percent"].isna().all()
    assert "MFU" not in result.finding
    assert result.operators["tflops"].iloc[0] > 0


@pytest.mark.parametrize("broken", ["H100", [3], [{"name": 5}], [{"id": "x", "name": "NVIDIA L4"}]])
def test_device_properties_of_other_forms(tmp_path, broken):
    result = roofline(opened(tmp_path, products(), deviceProperties=broken))
    assert result.devices["name"].tolist() == [""]


def test_a_type_without_a_known_rate_has_no_mfu(tmp_path):
    dims = [[512, 512], [512, 512]]
    events = [operator(0, 10, "aten::mm", dims, types=["double"] * 2), *launch(1, 50, 1)]
    result = roofline(opened(tmp_path, events, deviceProperties=H100))
    assert result.operators["bound"].tolist() == ["unknown"]
    assert np.isnan(result.devices["mfu_percent"].iloc[0])


@pytest.mark.parametrize(("other_us", "is_said"), [(9_800, True), (10_000, False)])
def test_an_mfu_is_said_of_a_hundredth_of_the_kernel_time(tmp_path, other_us, is_said):
    """Of 0.22 % of it, the MFU of a server was "at least 0.03 % of the peak"."""
    dims = [[512, 512], [512, 512]]
    events = [operator(0, 10, "aten::mm", dims), *launch(1, 100, 1)]
    events += [host(200, 10, "mine"), call(201, 1, 2), kernel(300, other_us, correlation=2)]
    result = roofline(opened(tmp_path, events, deviceProperties=H100))
    assert (" MFU " in result.finding) is is_said


def test_no_shapes_are_said_once_with_the_option(tmp_path):
    events = [host(0, 10, "aten::mm"), *launch(1, 7, 1)]
    result = roofline(opened(tmp_path, events))
    assert result.finding == (
        "No shapes of matrix products, convolutions or attention were recorded on the selected "
        "ranks, so their TFLOP/s are unknown (record_shapes=True records them)."
    )
    assert not any("record_shapes" in each for each in result.notices)


def test_that_no_product_ran_is_said_where_other_operators_have_shapes(tmp_path):
    adds = [operator(0, 10, "aten::add", [[512, 512], [512, 512]]), *launch(1, 7, 1)]
    assert roofline(opened(tmp_path / "add", adds)).finding == (
        "No matrix products, convolutions or attention with recorded shapes ran on the selected "
        "ranks."
    )
    alone = roofline(opened(tmp_path / "alone", [kernel(0, 9, name="ampere_sgemm_128x64_nn")]))
    assert alone.finding.endswith(" on the selected ranks, so their TFLOP/s are unknown.")


def test_earlier_work_is_of_no_step(tmp_path):
    """A request of 35.2 ms began with 14 ms of kernels that an earlier one had launched."""
    earlier = kernel(0, 500, name="earlier")
    events = [earlier, step(6, 600, 2000), *later(products(2), 1000)]
    job = opened(tmp_path, events, deviceProperties=H100)
    whole, of_step = roofline(job), roofline(job, steps=[6])
    assert whole.devices["kernel_ns"].tolist() == [740_000]
    assert of_step.devices["kernel_ns"].tolist() == [240_000]
    pd.testing.assert_frame_equal(of_step.operators, whole.operators)
    assert of_step.uncounted.empty
    assert "; the MFU over the selected time is " in of_step.finding


@given(st.integers(1000, 2600))
def test_a_call_across_an_edge_counts_with_its_part_on_each_side(tmp_path_factory, edge_us):
    """Of each product, as much is computed on a side as of its 120 µs is there."""
    job = opened(tmp_path_factory.mktemp("roofline"), products(), deviceProperties=H100)
    (whole,) = roofline(job).operators.to_dict("records")
    edge_ns = 1000 * edge_us
    windows = [(0, edge_ns), (edge_ns, 10_000_000)]
    sides = [roofline(job, window_ns=window).operators for window in windows]
    for side, (start, end) in zip(sides, windows, strict=True):
        spans = [(1000 + 200 * n, 100, n) for n in range(4)] + [
            (1150 + 200 * n, 20, n) for n in range(4)
        ]
        inside = [
            (max(0, min(1000 * (at + length), end) - max(1000 * at, start)), number)
            for at, length, number in spans
        ]
        of_call = Counter()
        for ns, number in inside:
            of_call[number] += ns
        assert side["gpu_ns"].sum() == sum(of_call.values())
        assert side["kernels"].sum() == sum(ns > 0 for ns, _ in inside)
        assert side["calls"].sum() == sum(ns > 0 for ns in of_call.values())
        flop = [whole["flop"] // 4 * ns // 120_000 for ns in of_call.values()]
        assert side["flop"].sum() == sum(flop)
        assert side["tflops"].to_numpy() == pytest.approx(whole["tflops"])


def later(events, us):
    return [each | {"ts": each["ts"] + us} for each in events]


def test_without_kernels(tmp_path):
    result = roofline(opened(tmp_path, [host(0, 10, "aten::mm")]))
    assert result.finding == "No kernels were recorded on the selected ranks."
    assert result.devices.empty


def test_of_an_nsys_export():
    result = roofline(open_trace(traces_or_skip() / "nsys" / "h100_2gpu_1s.sqlite", progress=False))
    assert "record_shapes" not in result.finding + str(result.notices)
    uncounted = result.uncounted["gpu_ns"].sum()
    assert uncounted + result.operators["gpu_ns"].sum() == result.devices["kernel_ns"].sum()


NAMES = ("aten::linear", "aten::mm", "aten::addmm", "aten::copy_", "aten::sort")


@st.composite
def nested(draw):
    """Operators in each other, and launches anywhere."""
    events, spans = [], [(0, 1000)]
    for _ in range(draw(st.integers(1, 12))):
        first, last = draw(st.sampled_from(spans))
        if last - first < 6:
            continue
        begin = draw(st.integers(first + 1, last - 4))
        end = draw(st.integers(begin + 3, last - 1))
        if any(not (end <= a or b <= begin or (a < begin and end < b)) for a, b in spans):
            continue
        spans.append((begin, end))
        name, rows = draw(st.sampled_from(NAMES)), draw(st.integers(1, 9))
        dims = [[7]] * (name == "aten::addmm") + [[rows, 4], [4, 7]]
        events.append(operator(begin, end - begin, name, dims))
    for number in range(1, draw(st.integers(1, 8)) + 1):
        at, length = draw(st.integers(0, 999)) + 0.25, draw(st.integers(1, 50))
        events += launch(at, length, number, at=2000 + 60 * number)
        events[-2]["dur"] = 0.5
    return events


@given(nested())
def test_brute_force(tmp_path_factory, events):
    result = roofline(opened(tmp_path_factory.mktemp("roofline"), events))
    operators = [each for each in events if each["cat"] == "cpu_op"]
    calls = {e["args"]["correlation"]: e for e in events if e["cat"] == "cuda_runtime"}
    gpu_ns, flop, seen = Counter(), Counter(), set()
    for work in (each for each in events if each["cat"] == "kernel"):
        ts = calls[work["args"]["correlation"]]["ts"]
        around = [e for e in operators if e["ts"] <= ts < e["ts"] + e["dur"]]
        around.sort(key=lambda each: each["dur"])
        owner = next((e for e in around if e["name"] in COMPUTING), around[0] if around else None)
        name = owner["name"] if owner else ""
        gpu_ns[name] += work["dur"] * 1000
        if name in COMPUTING and id(owner) not in seen:
            seen.add(id(owner))
            flop[name] += 2 * 28 * owner["args"]["Input Dims"][-2][0]
    counted = result.operators.groupby("operator")[["gpu_ns", "flop"]].sum()
    rest = result.uncounted.groupby("operator")["gpu_ns"].sum().to_dict()
    assert Counter(counted["gpu_ns"].to_dict()) + Counter(rest) == gpu_ns
    assert {name: each for name, each in counted["flop"].to_dict().items() if each} == flop
    assert set(rest) <= {"", "aten::linear", "aten::sort"}


def test_sums_over_ranks(tmp_path):
    for rank, count in enumerate((4, 8)):
        write(tmp_path / f"rank-{rank}.json", products(count), deviceProperties=H100)
    result = roofline(open_trace(tmp_path, progress=False))
    (row,) = over_ranks(result.operators).to_dict("records")
    both = result.operators
    assert (row["calls"], row["gpu_ns"]) == (12, both["gpu_ns"].sum())
    assert row["tflops"] == pytest.approx(both["flop"].sum() / both["gpu_ns"].sum() / 1000)
    assert row["percent_of_peak"] == pytest.approx(both["percent_of_peak"].mean())
    assert row["intensity"] == pytest.approx(both["intensity"].iloc[0])
    alone = over_ranks(roofline(open_trace(tmp_path, progress=False), [0]).operators)
    assert set(alone.columns) == set(row)
