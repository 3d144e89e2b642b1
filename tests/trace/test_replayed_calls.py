"""Replays of graphs get the operators of their captures where these are surely the same."""

from __future__ import annotations

import pytest

from hta_widgets import open_trace
from hta_widgets.analyses import modules, operators, roofline
from hta_widgets.analyses.timeline.lanes_of_job import job_lanes
from hta_widgets.errors import ParameterError, RankError, TraceNotFoundError
from tests.kineto_text import call, host, kernel, step, write

BEGIN, END, REPLAY = "hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphLaunch"
LAYERS = ("k0", "k1", "k2")


def launching(ts, correlation, name, *, amd=True):
    """A launch as AMD's profiler writes it: with the name of the kernel."""
    event = call(ts, 1, correlation, name="hipLaunchKernel")
    return event | {"args": event["args"] | ({"kernel": name} if amd else {})}


def captured(names=LAYERS, *, ts=1000.0, size=None, amd=True, operator="aten::mm"):
    """A capture of a module with one operator for each kernel, of which nothing runs."""
    events = [call(ts, 1, 0, name=BEGIN)]
    end = ts + 10 + 20 * len(names)
    events.append(host(ts + 5, end - ts - 8, "nn.Module: Layer_0", cat="python_function"))
    for place, name in enumerate(names):
        at = ts + 10 + 20 * place
        inputs = {"Input Dims": [[8, 64], [64, 32 * (place + 1)]], "Input type": ["float"] * 2}
        events.append(host(at, 15, operator) | {"args": inputs})
        events.append(launching(at + 5, 0, name, amd=amd))
    events.append(call(end, 1, 0, name=END))
    if size is not None:
        events.append(host(ts - 5, end - ts + 10, f"capture_{size}_FULL", cat="user_annotation"))
    return events


def replayed(names=LAYERS, *, ts=100.0, number=1, stream=7):
    """A replay: one call, and its kernels of 10, 20, … µs."""
    events, at = [call(ts, 40, number, name=REPLAY)], ts + 50
    for place, name in enumerate(names):
        dur = 10.0 * (place + 1)
        events.append(kernel(at, dur, name=name, correlation=number, stream=stream))
        at += dur + 1
    return events


OTHER = [host(10, 20, "aten::add"), call(15, 5, 900), kernel(40, 5, name="add", correlation=900)]


@pytest.fixture
def opened(tmp_path):
    """Open a trace with captures, each a list of events."""

    def open_with(trace, *captures, **options):
        paths = [
            write(tmp_path / "captures" / f"bs_{place}_rank0.json", events)
            for place, events in enumerate(captures)
        ]
        options.setdefault("captures", paths or None)
        return open_trace(write(tmp_path / "rank-0.json", trace), progress=False, **options)

    (tmp_path / "captures").mkdir()
    return open_with


def rows(job, **options):
    table = operators(job, **options).operators
    return dict(zip(table["operator"], table["gpu_self_ns"], strict=True))


def test_operators_shapes_and_modules_of_a_replay(opened):
    job = opened([*OTHER, *replayed()], captured())
    found = operators(job, by="shape")
    mm = found.operators[found.operators["operator"] == "aten::mm"]
    assert mm["gpu_self_ns"].tolist() == [30_000, 20_000, 10_000]
    assert mm["input_dims"].tolist() == [f"[[8, 64], [64, {n}]]" for n in (96, 64, 32)]
    assert mm["calls"].tolist() == [1, 1, 1]
    assert mm["cpu_self_ns"].tolist() == mm["cpu_total_ns"].tolist() == [0, 0, 0]
    assert found.ranks["outside_operators_ns"].tolist() == [0]
    assert "1 of 1 graph replays (3 kernels, copies and fills)" in found.notices[-1]
    tree = modules(job).modules
    assert dict(zip(tree["path"], tree["gpu_self_ns"], strict=True)) == {"Layer_0": 60_000}
    assert roofline(job).operators["gpu_ns"].sum() == 60_000


def test_every_time_of_the_host_is_that_of_the_replay(opened):
    joined = opened([*OTHER, *replayed()], captured())
    alone = opened([*OTHER, *replayed()], captures=False)
    cpu = [
        operators(job).operators.groupby("operator")["cpu_self_ns"].sum() for job in (joined, alone)
    ]
    assert cpu[0]["aten::add"] == cpu[1]["aten::add"] == 20_000
    assert cpu[0].sum() == cpu[1].sum()
    assert joined.events(0).equals(alone.events(0))


def test_the_timeline_says_what_only_the_capture_has(opened):
    job = opened([*OTHER, *replayed()], captured())
    lanes, events = job_lanes(job), job.events(0)
    of_kind = events[events["kind"] == "kernel"]
    found = {name: lanes.event(0, row)["captured"] for row, name in of_kind["name"].items()}
    assert found == {"add": "", "k0": "aten::mm", "k1": "aten::mm", "k2": "aten::mm"}
    [graph] = events.index[events["name"] == REPLAY]
    assert lanes.event(0, graph)["captured"] == ""


def test_each_replay_counts_in_its_step(opened):
    trace = [
        *(step(n, 1000 * n, 990) for n in (1, 2, 3)),
        *replayed(ts=1100, number=1),
        *replayed(ts=2100, number=2),
        *replayed(ts=2500, number=3),
        *replayed(ts=3100, number=4),
    ]
    job = opened(trace, captured())
    calls = [
        operators(job, steps=[n]).operators.set_index("operator")["calls"]["aten::mm"]
        for n in (1, 2)
    ]
    assert calls == [3, 6]


def test_without_a_capture_each_graph_is_a_row(opened):
    trace = [*OTHER, *replayed(), *replayed(ts=500, number=2), *replayed(("x",), ts=900, number=3)]
    job = opened(trace)
    assert rows(job) == {
        "HIP graph 1 (3 kernels)": 120_000,
        "HIP graph 2 (1 kernel)": 10_000,
        "aten::add": 5_000,
    }
    assert "3 of 3 graph replays have no operators" in operators(job).notices[-1]
    reasons = roofline(job).uncounted.set_index("operator")["reason"]
    assert reasons["HIP graph 1 (3 kernels)"] == "in CUDA graphs"
    assert "130 µs run inside CUDA graphs" in " ".join(modules(job).notices)


def test_a_graph_that_an_operator_launches_is_of_that_operator(opened):
    trace = [host(90, 60, "CompiledFxGraph"), *replayed()]
    assert rows(opened(trace)) == {"CompiledFxGraph": 60_000}


def test_calls_that_launch_are_listed_where_there_are_no_operators(opened):
    found = operators(opened([*replayed()]))
    assert found.operators.empty
    assert found.launch_calls["operator"].tolist() == [REPLAY]


MANY = tuple(f"k{n % 9}" for n in range(60))


@pytest.mark.parametrize(
    "names",
    [MANY[1:], (*MANY, "k0"), (*MANY[:20], "other", *MANY[21:]), MANY[:-2], MANY[::-1]],
    ids=["first missing", "one more", "renamed", "two lost", "other order"],
)
def test_what_differs_is_refused(opened, names):
    job = opened([*OTHER, *replayed(names)], captured(MANY))
    assert "aten::mm" not in rows(job)
    assert "1 of 1 graph replays fit no opened capture" in operators(job).notices[-1]


def test_a_lost_last_kernel_is_said(opened):
    job = opened([*OTHER, *replayed(MANY[:-1])], captured(MANY))
    assert rows(job)["aten::mm"] == sum(10_000 * (n + 1) for n in range(59))
    assert "1 of these lack the last kernels" in operators(job).notices[-1]


def test_the_capture_of_all_its_kernels_goes_before_one_that_has_one_more(opened):
    more = captured((*MANY, "k0"), operator="one more")
    job = opened([*OTHER, *replayed(MANY)], more, captured(MANY, operator="all"))
    assert {"all", "one more"} & {*rows(job)} == {"all"}
    assert "lack the last kernels" not in " ".join(operators(job).notices)


def test_order_alone_joins_only_what_was_named(opened, tmp_path):
    without_names = captured(MANY, amd=False)
    trace = [*OTHER, *replayed(MANY)]
    asked = opened(trace, without_names)
    assert "aten::mm" in rows(asked)
    assert "1 of these by order alone" in " ".join(operators(asked).notices)
    (tmp_path / "captures").rename(tmp_path / "capture_traces")
    found = open_trace(tmp_path / "rank-0.json", progress=False)
    assert found.sources[0].captures
    assert "aten::mm" not in rows(found)
    # kernels of two streams have no order
    two = [*replayed(MANY[:30]), *replayed(MANY[30:], ts=5000, stream=9)[1:]]
    asked = open_trace(
        write(tmp_path / "two.json", [*OTHER, *two]),
        captures=tmp_path / "capture_traces",
        progress=False,
    )
    assert "aten::mm" not in rows(asked)


def test_equal_layers_follow_the_order_of_capture_in_each_step(opened):
    layers = [
        event
        for number in range(3)
        for event in captured(("k",), ts=1000.0 * (number + 1), operator=f"layer{number}")
    ]
    trace = [
        step(n, 10_000 * n, 9_000) if place is None else event
        for n in (1, 2, 3)
        for place, event in [
            (None, None),
            *(
                (layer, each)
                for layer in range(3)
                for each in replayed(
                    ("k",), ts=10_000 * n + 1_000 * layer + 100, number=10 * n + layer
                )
            ),
        ]
    ]
    job = opened([*OTHER, *trace], layers)
    assert rows(job, steps=[1]) == rows(job, steps=[2])
    assert rows(job) == {"aten::add": 5_000, **{f"layer{n}": 20_000 for n in range(3)}}


@pytest.mark.parametrize(
    ("span", "operator"),
    [
        ("step[DECODE bs=8]", "eight"),
        ("step[DECODE bs=9]", "sixteen"),
        ("step[DECODE bs=17]", None),
        ("somebody's own", None),
    ],
)
def test_graphs_of_several_sizes_are_told_by_the_batch(opened, span, operator):
    sizes = [captured(size=size, operator=name) for size, name in ((16, "sixteen"), (8, "eight"))]
    around = host(50, 500, span, cat="user_annotation")
    found = rows(opened([*OTHER, around, *replayed()], *sizes))
    assert {"eight", "sixteen"} & {*found} == ({operator} if operator else set())


def test_a_graph_that_is_captured_in_the_same_file(opened):
    assert "aten::mm" in rows(opened([*OTHER, *captured(ts=5000), *replayed(ts=9000)]))


def test_captures_beside_the_trace_are_no_ranks(opened, tmp_path):
    opened([*OTHER, *replayed()], captured())
    (tmp_path / "captures" / "bs_0_rank0.json").rename(tmp_path / "bs_8_rank0.json")
    job = open_trace(tmp_path, progress=False)
    assert job.ranks == (0,)
    assert "bs_8_rank0.json is a capture of graphs, and no rank" in job.notices
    assert "aten::mm" in rows(job)
    alone = open_trace(tmp_path / "bs_8_rank0.json", progress=False)
    assert alone.kind == "graph capture"
    assert not alone.sources[0].captures


def test_a_capture_that_breaks_later_is_said(opened, tmp_path):
    job = opened([*OTHER, *replayed()], captured())
    (tmp_path / "captures" / "bs_0_rank0.json").write_text("{}")
    found = operators(job)
    assert "HIP graph 1 (3 kernels)" in {*found.operators["operator"]}
    assert any("a capture cannot be read" in each for each in found.notices)


def test_errors(opened, tmp_path):
    trace = [*OTHER, *replayed()]
    with pytest.raises(ParameterError, match="captures must be paths"):
        opened(trace, captures=True)
    with pytest.raises(TraceNotFoundError, match="nowhere does not exist"):
        opened(trace, captures=tmp_path / "nowhere")
    other = write(tmp_path / "bs_8_rank3.json", captured())
    with pytest.raises(RankError, match="captures are of rank 3, the trace is of rank 0"):
        opened(trace, captures=other)


REAL = [
    ("sglang_decode_graph", "sglang_capture", 544, (0.998, 0.993, 0.592)),
    ("vllm_piecewise", "vllm_piecewise_capture", 361, (1.000, 0.999, 0.113)),
]


@pytest.mark.parametrize(("trace", "captures", "nodes", "shares"), REAL)
def test_real_pairs(real_traces, trace, captures, nodes, shares):
    job = open_trace(
        real_traces / "kineto" / trace, captures=real_traces / "kineto" / captures, progress=False
    )
    found = operators(job, by="shape")
    whole = found.ranks.sum(numeric_only=True)
    in_operators = 1 - whole["outside_operators_ns"] / whole["gpu_ns"]
    of_modules = modules(job).modules["gpu_self_ns"].sum() / whole["gpu_ns"]
    devices = roofline(job).devices
    with_flop = devices["flop_ns"].sum() / devices["kernel_ns"].sum()
    assert (in_operators, of_modules, with_flop) == pytest.approx(shares, abs=1e-3)
    assert f"({nodes} kernels, copies and fills)" in " ".join(found.notices)
    with_shapes = found.operators[found.operators["input_dims"] != ""]
    assert with_shapes["gpu_self_ns"].sum() / whole["gpu_ns"] == pytest.approx(shares[0], abs=1e-3)


@pytest.mark.parametrize(
    ("trace", "captures", "replays"),
    [
        ("vllm_piecewise", "sglang_capture", 25),
        ("sglang_decode_graph", "vllm_piecewise_capture", 1),
    ],
)
def test_real_captures_of_another_model_are_refused(real_traces, trace, captures, replays):
    job = open_trace(
        real_traces / "kineto" / trace, captures=real_traces / "kineto" / captures, progress=False
    )
    said = f"{replays} of {replays} graph replays fit no opened capture"
    assert said in " ".join(operators(job).notices)
