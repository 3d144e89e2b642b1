"""Launches of kernels against brute force, and the rules one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.errors import ParameterError
from hta_widgets.panels.bands.bands import launch_of
from hta_widgets.panels.bands.events import selected_events
from hta_widgets.panels.base.selection import Selection
from tests.analyses.test_attribution import frame
from tests.analyses.test_roofline import opened
from tests.kineto_text import call, host, kernel, step
from tests.raw_launches import launch_rows, rows_of, sizes_of

A100 = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-40GB",
    "computeMajor": 8,
    "computeMinor": 0,
    "warpSize": 32,
    "numSms": 108,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 167936,
}
MI300 = {
    "id": 0,
    "name": "AMD Instinct MI300X",
    "computeMajor": 9,
    "computeMinor": 4,
    "warpSize": 64,
    "numSms": 304,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536,
    "maxSharedMemoryPerMultiProcessor": 65536,
}


def launched(ts, dur, grid, block, *, registers=None, shared=None, occupancy=None, **fields):
    """A kernel with what the profiler says of its launch."""
    said = {
        "registers per thread": registers,
        "shared memory": shared,
        "est. achieved occupancy %": occupancy,
    }
    known = {key: value for key, value in said.items() if value is not None}
    known |= {"grid": grid, "block": block}
    return kernel(ts, dur, **({} if grid is None else known), **fields)


@st.composite
def kernels(draw):
    sizes = st.sampled_from([1, 2, 3, 33, 128, 1000])
    return [
        launched(
            2 * number,
            draw(st.integers(0, 9)),
            draw(st.sampled_from([None, [draw(sizes), draw(sizes), 1]])),
            [draw(st.sampled_from([32, 33, 250, 1024])), draw(st.sampled_from([1, 1, 4])), 1],
            registers=draw(st.sampled_from([None, 0, 16, 85, 255])),
            shared=draw(st.sampled_from([None, 0, 1, 49152, 167935])),
            occupancy=draw(st.sampled_from([None, None, 0, 7, 100])),
            name=draw(st.sampled_from(["gemm", "Add"])),
            device=draw(st.sampled_from([0, 0, 1])),
        )
        for number in range(draw(st.integers(1, 8)))
    ]


@given(kernels(), st.sampled_from(["name", "configuration"]), st.booleans())
def test_against_brute_force(tmp_path_factory, events, by, described):
    gpus = [A100, MI300 | {"id": 1}] if described else []
    job = opened(tmp_path_factory.mktemp("launches"), events, deviceProperties=gpus)
    result = launch_facts(job, by=by)
    expected = launch_rows(events, {each["id"]: each for each in gpus}, by=by)
    found = rows_of(result, by=by)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert found[key]["count"] == row["count"]
        for name, values in row.items():
            assert found[key][name] == pytest.approx(values, nan_ok=True, rel=1e-12), name
    assert result.kernels["gpu_ns"].sum() == 1000 * sum(each["dur"] for each in events)
    if by == "name":
        for row in result.kernels.to_dict("records"):
            sizes = sizes_of(events)[row["device"], row["name"]]
            assert row["configurations"] == len(sizes)
            longest = [key for key, ns in sizes.items() if ns == max(sizes.values())]
            assert (row["grid"], row["block"]) in (longest or [("", "")])


def test_a_grid_is_shown_where_most_launches_have_none(tmp_path):
    """As of kernels that mostly run inside a graph, of which AMD's profiler records none."""
    events = [kernel(20 * number, 15, name="gemm") for number in range(9)]
    events.append(launched(200, 5, [16, 1, 1], [32, 4, 1], name="gemm"))
    events.append(launched(210, 2, [8, 1, 1], [32, 4, 1], name="gemm"))
    (row,) = launch_facts(opened(tmp_path, events)).kernels.to_dict("records")
    assert (row["configurations"], row["grid"], row["block"]) == (2, "16×1×1", "32×4×1")
    assert row["blocks"] == 16


def test_what_is_recorded_of_the_launch_call_only(tmp_path):
    asked = {"grid": [8, 2, 1], "block": [64, 1, 1], "shared memory": 2048}
    events = [
        *(call(0, 1, 1) | {"name": name, "args": {"correlation": number, **asked}}
          for number, name in enumerate(("hipLaunchKernel", "hipExtModuleLaunchKernel"), 1)),
        kernel(2, 5, correlation=1, name="bare"),
        launched(8, 5, [16, 1, 1], [32, 1, 1], correlation=2, name="in threads"),
    ]  # fmt: skip
    rows = launch_facts(opened(tmp_path, events)).kernels.set_index("name")
    assert rows["grid"].to_dict() == {"bare": "8×2×1", "in threads": "1×1×1"}
    assert rows["block"].to_dict() == {"bare": "64×1×1", "in threads": "32×1×1"}
    assert rows["shared_bytes"].tolist() == [2048, 2048]
    assert rows["registers"].tolist() == [-1, -1]


def test_a_kernel_by_hand(tmp_path):
    """256 threads of 64 registers: 4 blocks by registers, 3 by shared memory, so 324 at a time."""
    events = [
        frame(0, 100, "nn.Module: Net_0"),
        *(host(1, 9, "aten::mm"), call(2, 1, 1)),
        launched(
            10, 9, [648, 1, 1], [256, 1, 1], registers=64, shared=49152, correlation=1,
            name="ampere_sgemm_32x32_sliced1x4_tn",
        ),
    ]  # fmt: skip
    (row,) = launch_facts(opened(tmp_path, events, deviceProperties=[A100])).kernels.to_dict(
        "records"
    )
    expected = {
        "grid": "648×1×1",
        "block": "256×1×1",
        "blocks": 648,
        "threads": 256,
        "sms": 108,
        "registers": 64,
        "shared_bytes": 49152,
        "blocks_per_sm": 6.0,
        "waves": 2.0,
        "occupancy_percent": 37.5,
        "occupancy_source": "estimated",
        "configurations": 1,
        "tensor_core": "no",
        "operator": "aten::mm",
        "module": "Net_0",
        "count": 1,
    }
    assert {name: row[name] for name in expected} == expected


def test_what_takes_most_of_the_time_stands_for_all(tmp_path):
    events = [
        *(host(0, 9, "aten::add"), call(1, 1, 1), call(2, 1, 2)),
        *(host(10, 9, "aten::mul"), call(11, 1, 3)),
        launched(20, 1, [4, 1, 1], [32, 1, 1], correlation=1),
        launched(30, 1, [4, 1, 1], [32, 1, 1], correlation=2),
        launched(40, 9, [8, 1, 1], [64, 1, 1], correlation=3),
    ]
    (row,) = launch_facts(opened(tmp_path, events)).kernels.to_dict("records")
    assert (row["grid"], row["operator"], row["configurations"]) == ("8×1×1", "aten::mul", 2)
    assert (row["blocks"], row["blocks_min"], row["gpu_ns"]) == (8, 4, 11_000)


def test_grids_that_are_recorded_in_threads(tmp_path):
    calls = [call(0, 1, 1, name="hipExtModuleLaunchKernel"), call(2, 1, 2, name="hipLaunchKernel")]
    works = [
        launched(10, 5, [512, 3, 1], [256, 1, 1], correlation=1, name="Cijk"),
        launched(20, 5, [512, 3, 1], [256, 1, 1], correlation=2, name="add"),
    ]
    table = launch_facts(opened(tmp_path, [*calls, *works], deviceProperties=[MI300])).kernels
    assert dict(zip(table["name"], table["grid"], strict=True)) == {
        "Cijk": "2×3×1",
        "add": "512×3×1",
    }


def test_what_fills_few_multiprocessors_is_said(tmp_path):
    events = [
        launched(0, 60, [216, 1, 1], [256, 1, 1], name="wide"),
        launched(100, 30, [27, 1, 1], [256, 1, 1], name="narrow"),
        launched(200, 5, [1, 1, 1], [256, 1, 1], name="tiny"),
        launched(300, 20, [2, 1, 1], [256, 1, 1], name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        launched(400, 2, [1, 1, 1], [256, 1, 1], name="short"),
    ]
    assert launch_facts(opened(tmp_path, events, deviceProperties=[A100])).finding == (
        "narrow fills 27 of 108 SMs in 25.6 % of the kernel time, because its grid has 27 blocks; "
        "1 other kernel leaves SMs empty in 4.27 % of the kernel time."
    )
    wide = launch_facts(opened(tmp_path, events[:1], deviceProperties=[A100]))
    assert wide.finding == ""


@pytest.mark.parametrize(
    ("events", "notice"),
    [
        ([kernel(0, 5)], "no grids and blocks of kernels were recorded"),
        (
            [launched(0, 5, [1, 1, 1], [32, 1, 1])],
            "the trace does not describe its GPUs, so how many blocks fit on them is not known",
        ),
    ],
)
def test_what_is_missing_is_said_once(tmp_path, events, notice):
    result = launch_facts(opened(tmp_path, events))
    assert result.notices.count(notice) == 1
    assert result.finding == ""
    assert result.kernels["waves"].isna().all()


def test_steps_and_windows(tmp_path):
    works = [launched(10, 5, [1, 1, 1], [32, 1, 1]), launched(110, 7, [2, 1, 1], [32, 1, 1])]
    marks = [step(1, 0, 100), step(2, 100, 100), step(3, 200, 10)]
    calls = [call(5, 1, 1), call(105, 1, 2)]
    linked = [
        work | {"args": work["args"] | {"correlation": at}} for at, work in enumerate(works, 1)
    ]
    job = opened(tmp_path, [*marks, *calls, *linked])
    assert launch_facts(job, steps=[2]).kernels[["blocks", "gpu_ns"]].to_numpy().tolist() == [
        [2, 7000]
    ]
    assert launch_facts(job, window_ns=(0, 12_000)).kernels["gpu_ns"].tolist() == [2000]
    assert launch_facts(job, window_ns=(50_000, 60_000)).kernels.empty
    with pytest.raises(ParameterError, match="by must be one of 'name', 'configuration', got 'x'"):
        launch_facts(job, by="x")


def details_of(folder, works, kernel, **metadata):
    """Details of a kernel in the dashboard, by label."""
    job = opened(folder, works, **metadata)
    events = selected_events(job, Selection(kernel=kernel))
    return {each["label"]: each["text"] for each in launch_of(job, kernel, events)}


def test_multiprocessors_are_counted_where_a_tool_wrote_another_number(tmp_path):
    """A tracer of CUPTI writes the bytes of shared memory: 0.172 % occupancy of a GEMM."""
    gpu = {**A100, "multiProcessorCount": 108, "numSms": 167936}
    works = [launched(0, 9, [2310, 1, 1], [256, 1, 1], registers=234, shared=147456, name="gemm")]
    assert details_of(tmp_path, works, "gemm", deviceProperties=[gpu])["occupancy"].startswith(
        "12.5 %"
    )


def test_details_of_the_selected_kernel(tmp_path):
    works = [
        launched(0, 9, [40, 2, 1], [128, 1, 1], registers=88, shared=33792, name="a_tf32"),
        launched(20, 5, [900, 1, 1], [128, 1, 1], registers=88, shared=33792, name="a_tf32"),
        launched(30, 5, [901, 1, 1], [128, 1, 1], registers=88, shared=33792, name="a_tf32"),
        launched(
            40, 5, [900, 1, 1], [128, 1, 1], registers=32, shared=0, occupancy=90, name="wide"
        ),
        kernel(60, 5, name="unknown"),
    ]
    assert details_of(tmp_path, works, "a_tf32", deviceProperties=[A100]) == {
        "grid": "40×2×1 blocks of 128×1×1 threads and 2 other sizes",
        "registers/thread": "88",
        "shared memory/block": "33.8 kB",
        "occupancy": "25 % (median, estimated)",
        "fills": "80 of 108 SMs",
        "tensor cores": "yes",
    }
    assert details_of(tmp_path, works, "wide", deviceProperties=[A100]) == {
        "grid": "900×1×1 blocks of 128×1×1 threads",
        "registers/thread": "32",
        "occupancy": "90 %",
        "waves": "0.521",
    }
    assert details_of(tmp_path, works, "unknown") == {"grid": "not recorded"}
    assert details_of(tmp_path, works, "") == {}
