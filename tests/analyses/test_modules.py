"""Modules against brute force, and the rules one by one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.modules import module_totals, modules
from hta_widgets.analyses.overlap import overlap
from hta_widgets.errors import ParameterError
from hta_widgets.trace.opening.open import open_trace
from tests import nsys_export
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_attribution import frame, numbered_calls, operator
from tests.kineto_text import call, host, kernel, step, write
from tests.raw_modules import RawModules

OWN = {"gpu": "gpu_self_ns", "exposed": "exposed_communication_ns", "idle": "idle_ns"}
OUTSIDE = {**OWN, "gpu": "gpu_ns"}


@st.composite
def modules_and_work(draw):
    events = draw(st.lists(numbered_calls(), max_size=12))
    for number in range(draw(st.integers(1, 5))):
        at = {"pid": 100, "tid": draw(st.sampled_from([1, 1, 2, 3]))}
        if draw(st.integers(0, 5)):
            events.append(call(draw(st.integers(0, 50)), draw(st.integers(0, 9)), number, **at))
        events.append(
            kernel(
                draw(st.integers(0, 60)),
                draw(st.integers(0, 20)),
                name=draw(st.sampled_from(["gemm", "ncclDevKernel_AllReduce"])),
                device=draw(st.sampled_from([0, 0, 1])),
                stream=draw(st.sampled_from([7, 20])),
                correlation=number,
            )
        )
    return draw(st.permutations(events))


def check(result, raw):
    """All columns, and that nothing is lost."""
    sums = raw.sums()
    for name, column in OWN.items():
        assert found_in(result, column, OUTSIDE[name]) == sums[name], name
    expected = {
        "gpu_total_ns": with_outer(sums["gpu"]),
        "cpu_total_ns": with_outer(sums["cpu"]),
        "calls": Counter({node: count for node, count in sums["calls"].items() if node[0]}),
    }
    for column, values in expected.items():
        assert found_in(result, column) == values, column
    outside = found_in(result, None, "cpu_ns")
    assert outside == Counter({node: ns for node, ns in sums["cpu"].items() if not node[0]})


def found_in(result, column, outside=None):
    """Sums by path and phase; the path is empty outside."""
    found = Counter()
    for row in result.modules.to_dict("records") if column else ():
        found[tuple(row["path"].split(" › ")), row["phase"]] += row[column]
    for row in result.outside.to_dict("records") if outside else ():
        found[(), row["phase"]] += row[outside]
    return Counter({node: ns for node, ns in found.items() if ns})


def with_outer(own):
    found = Counter()
    for (path, phase), ns in own.items():
        for length in range(1, len(path) + 1):
            found[path[:length], phase] += ns
    return found


def check_sums(job, result, work_ns=None, **time):
    """Tree and outside are all of the GPU work, exposed communication and idle time."""
    tree, outside = result.modules, result.outside
    idle_ns = idle_owners(job, **time).devices["idle_ns"].sum()
    assert tree["idle_ns"].sum() + outside["idle_ns"].sum() == idle_ns
    exposed_ns = overlap(job, **time).ranks["exposed_communication_ns"].sum()
    column = "exposed_communication_ns"
    assert tree[column].sum() + outside[column].sum() == exposed_ns
    if work_ns is not None:
        assert tree["gpu_self_ns"].sum() + outside["gpu_ns"].sum() == work_ns
    roots = tree[tree["depth"] == 0]
    assert roots["gpu_total_ns"].sum() == tree["gpu_self_ns"].sum()


@given(modules_and_work(), st.sampled_from(["instance", "class"]))
def test_against_brute_force(tmp_path_factory, events, merge):
    job = open_job(tmp_path_factory.mktemp("modules"), [events])
    result = modules(job, source="modules", merge=merge)
    check(result, RawModules(events, merge=merge))
    check_sums(job, result, int(job.rank(0).gpu_work.duration_ns.sum()))


@given(modules_and_work(), st.integers(0, 40), st.integers(1, 40))
def test_windows_add_up(tmp_path_factory, events, start, length):
    events = [each for each in events if not each["name"].startswith("ProfilerStep")]
    job = open_job(tmp_path_factory.mktemp("modules"), [events])
    whole = modules(job, source="modules")
    cuts = [-1_000_000, start * 1_000, (start + length) * 1_000, 10_000_000]
    parts = [modules(job, source="modules", window_ns=cut) for cut in pairwise(cuts)]
    for window_ns, part in zip(pairwise(cuts), parts, strict=True):
        check_sums(job, part, window_ns=window_ns)
    for column, outside in (("gpu_self_ns", "gpu_ns"), ("idle_ns", "idle_ns")):
        summed = sum((found_in(part, column, outside) for part in parts), Counter())
        assert summed == found_in(whole, column, outside)
    cpu = sum((found_in(part, "cpu_total_ns") for part in parts), Counter())
    assert cpu == found_in(whole, "cpu_total_ns")


NET = [
    frame(0, 100, "nn.Module: Net_0"),
    frame(10, 40, "nn.Module: Linear_0"),
    operator(12, 20, "aten::linear", 7),
    call(14, 2, 1),
    frame(60, 30, "nn.Module: Linear_1"),
    call(62, 2, 2),
    operator(200, 50, "autograd::engine::evaluate_function: MmBackward0", tid=5),
    operator(205, 40, "MmBackward0", 7, 1, tid=5),
    call(210, 2, 3, tid=5),
    *(host(300, 50, "Optimizer.step#Adam.step", cat="user_annotation"), call(310, 2, 4)),
    *(kernel(20, 10, correlation=1), kernel(70, 20, correlation=2)),
    *(kernel(220, 30, correlation=3), kernel(320, 5, correlation=4), kernel(400, 6)),
]


def rows(table, *columns):
    return table[list(columns)].to_numpy().tolist()


def test_a_network(tmp_path):
    job = open_job(tmp_path, [NET])
    result = modules(job)
    assert rows(
        result.modules, "path", "phase", "depth", "calls", "gpu_self_ns", "gpu_total_ns"
    ) == [
        ["Net_0", "forward", 0, 1, 0, 30_000],
        ["Net_0", "backward", 0, 0, 0, 30_000],
        ["Net_0 › Linear_0", "forward", 1, 1, 10_000, 10_000],
        ["Net_0 › Linear_0", "backward", 1, 0, 30_000, 30_000],
        ["Net_0 › Linear_1", "forward", 1, 1, 20_000, 20_000],
    ]
    assert rows(result.modules, "cpu_total_ns") == [
        [100_000],
        [40_000],
        [40_000],
        [40_000],
        [30_000],
    ]
    assert rows(result.outside, "phase", "gpu_ns") == [
        ["backward", 0],
        ["optimizer", 5_000],
        ["unknown", 6_000],
    ]
    assert result.source == "modules"
    assert result.finding == (
        "84.5 % of the GPU time belongs to Linear itself (60 µs in 2 modules); 7.04 % runs outside "
        "of every module; 8.45 % has no recorded launch."
    )
    check_sums(job, result, 71_000)


def test_modules_of_a_class(tmp_path):
    result = modules(open_job(tmp_path, [NET]), merge="class")
    assert rows(result.modules, "path", "phase", "calls", "gpu_self_ns") == [
        ["Net", "forward", 1, 0],
        ["Net", "backward", 0, 0],
        ["Net › Linear", "forward", 2, 30_000],
        ["Net › Linear", "backward", 0, 30_000],
    ]


def test_totals(tmp_path):
    table = module_totals(modules(open_job(tmp_path, [NET, NET])).modules)
    assert rows(table, "name", "parent", "calls", "gpu_self_ns", "gpu_total_ns", "backward_ns") == [
        ["Net_0", -1, 2, 0, 120_000, 60_000],
        ["Linear_0", 0, 2, 80_000, 80_000, 60_000],
        ["Linear_1", 0, 2, 40_000, 40_000, 0],
    ]
    assert table["idle_ns"].iloc[0] >= table["idle_ns"].iloc[1:].sum()


REGIONS = [
    host(0, 50, "encoder", cat="user_annotation"),
    *(host(10, 20, "attention", cat="user_annotation"), call(12, 2, 1)),
    *(host(60, 20, "nccl:all_reduce", cat="user_annotation"), call(62, 2, 2)),
    *(kernel(20, 10, correlation=1), kernel(70, 20, correlation=2)),
]


def test_annotations_stand_in_for_modules(tmp_path):
    result = modules(open_job(tmp_path, [REGIONS]))
    assert result.source == "regions"
    assert rows(result.modules, "path", "phase", "gpu_self_ns") == [
        ["encoder", "other", 0],
        ["encoder › attention", "other", 10_000],
    ]
    (notice,) = (each for each in result.notices if "modules" in each)
    assert notice == (
        "no modules were recorded; with_stack=True records them; regions are the annotations of "
        "the program"
    )
    assert modules(open_job(tmp_path, [REGIONS]), source="modules").modules.empty


def scripted(ts, hierarchy, number, *, sequence=None):
    """An operator of TorchScript that launches a kernel of 10 µs."""
    event = operator(ts, 8, "aten::conv2d", sequence)
    args = event.get("args", {}) | {"Module Hierarchy": hierarchy}
    return [
        event | {"args": args},
        call(ts + 1, 1, number),
        kernel(1000 + 20 * number, 10, correlation=number),
    ]


def test_modules_that_operators_of_torchscript_name(tmp_path):
    events = [
        *scripted(0, "TOP(Net)::forward.conv1(Conv2d)::forward.", 1, sequence=7),
        *scripted(10, "TOP(Net)::forward.conv2(Conv2d)::forward.SELF(Conv2d)::_conv.", 2),
        *scripted(20, "TOP(Net)::forward.", 3),
        *scripted(30, "", 4),
        operator(200, 50, "ConvolutionBackward0", 7, 1, tid=5),
        *(call(210, 2, 5, tid=5), kernel(2000, 30, correlation=5)),
    ]
    job = open_trace(write(tmp_path / "a.json", events, with_modules=1), progress=False)
    result = modules(job)
    assert (result.source, result.notices[-1][:4]) == ("modules", "FLOP")
    assert rows(result.modules, "path", "phase", "gpu_self_ns", "gpu_total_ns") == [
        ["Net", "forward", 10_000, 30_000],
        ["Net", "backward", 0, 30_000],
        ["Net › conv1 (Conv2d)", "forward", 10_000, 10_000],
        ["Net › conv1 (Conv2d)", "backward", 30_000, 30_000],
        ["Net › conv2 (Conv2d)", "forward", 10_000, 10_000],
    ]
    check_sums(job, result, 70_000)
    by_class = modules(job, merge="class").modules
    assert by_class["path"].drop_duplicates().tolist() == ["Net", "Net › Conv2d"]
    empty = [*scripted(0, "", 1), *REGIONS[:2]]
    other = open_trace(write(tmp_path / "b.json", empty, with_modules=1), progress=False)
    assert modules(other).source == "regions"


def test_ranges_of_nsight_systems_stand_in_for_modules(tmp_path):
    tables = {
        nsys_export.KERNEL: [
            nsys_export.kernel(20, 50, correlation=1),
            nsys_export.kernel(50, 60, correlation=2),
            nsys_export.kernel(60, 65, correlation=9),
        ],
        nsys_export.RUNTIME: [
            nsys_export.call(12, 14, correlation=1),
            nsys_export.call(40, 42, correlation=2),
        ],
        nsys_export.NVTX: [
            nsys_export.nvtx(0, 45, "encoder"),
            nsys_export.nvtx(10, 18, "layer_0"),
            nsys_export.nvtx(11, 15, "cudaLaunchKernel"),
            nsys_export.nvtx(30, 31, "layer_1"),
        ],
        nsys_export.STRINGS: nsys_export.strings("gemm", "cudaLaunchKernel_v7000"),
    }
    job = open_trace(nsys_export.write_sqlite(tmp_path / "a.sqlite", tables), progress=False)
    result = modules(job)
    assert result.source == "regions"
    assert rows(result.modules, "path", "calls", "gpu_self_ns", "gpu_total_ns") == [
        ["encoder", 1, 10, 40],
        ["encoder › layer_0", 1, 30, 30],
        ["encoder › layer_1", 1, 0, 0],
    ]
    check_sums(job, result, 45)
    assert not [each for each in result.notices if "with_stack" in each or "NVTX" in each]
    path = nsys_export.write_sqlite(tmp_path / "b.sqlite", tables | {nsys_export.NVTX: []})
    notices = modules(open_trace(path, progress=False)).notices
    assert len([each for each in notices if "no NVTX ranges were recorded" in each]) == 1


def test_steps(tmp_path):
    """Work belongs to the module whatever step; what is counted are the steps asked for."""
    events = [
        *(step(1, 0, 100), step(2, 100, 100), step(3, 200, 10)),
        *(frame(5, 50, "nn.Module: Net_0"), call(10, 1, 1), kernel(20, 10, correlation=1)),
        *(frame(105, 50, "nn.Module: Net_0"), call(110, 1, 2), kernel(120, 30, correlation=2)),
    ]
    job = open_job(tmp_path, [events])
    assert rows(modules(job).modules, "calls", "gpu_self_ns", "cpu_total_ns") == [
        [2, 40_000, 100_000]
    ]
    second = modules(job, steps=[2])
    assert rows(second.modules, "calls", "gpu_self_ns", "cpu_total_ns") == [[1, 30_000, 50_000]]
    check_sums(job, second, 30_000, steps=[2])


def test_a_module_that_is_cut_where_it_begins(tmp_path):
    """It is inside the module around it, which is cut there, too."""
    events = [
        *(frame(0, 20, "nn.Module: Net_0"), call(2, 2, 1), kernel(5, 10, correlation=1)),
        *(frame(10, 80, "nn.Module: Linear_0"), frame(10, 50, "contextlib.py(1): __exit__")),
    ]
    job = open_job(tmp_path, [events])
    result = modules(job)
    check(result, RawModules(events, merge="instance"))
    assert rows(result.modules, "calls", "cpu_total_ns") == [[1, 10_000], [1, 0]]


def test_what_runs_inside_graphs(tmp_path):
    events = [
        frame(0, 50, "nn.Module: Net_0"),
        call(10, 2, 1, name="cudaGraphLaunch"),
        *(kernel(20, 10, correlation=1), kernel(30, 10, correlation=1)),
    ]
    result = modules(open_job(tmp_path, [events]))
    assert any(each.startswith("20 µs run inside CUDA graphs") for each in result.notices)


def test_nothing_recorded(tmp_path):
    result = modules(open_job(tmp_path, [[host(0, 1, "aten::mm")]]))
    assert result.modules.empty
    assert result.finding == ""
    assert list(result.modules)[:4] == ["rank", "path", "name", "depth"]


def test_arguments(tmp_path):
    job = open_job(tmp_path, [NET])
    with pytest.raises(ParameterError, match="merge must be one of 'instance', 'class', got 'all'"):
        modules(job, merge="all")
    with pytest.raises(ParameterError, match="source must be one of"):
        modules(job, source="stacks")
