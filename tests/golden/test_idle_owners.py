"""Idle owners on real traces: the reference values, and sums."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from hta_widgets.analyses.budget.classes import BUDGET, IDLE_CLASSES
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_time import idle_time
from hta_widgets.analyses.time.causes import Share, idle_cause
from tests.golden.reference import attributed, diagnosed, opened, place_of

TRACES = (
    "alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "b200_eager/eager_trace.json.gz",
    "compare_control/control.json.gz",
    "compare_test/test.json.gz",
    "ddp_rank1of2/rank-1.json.gz",
    "dlrm_2rank/rank-0.json.gz",
    "dlrm_2rank/rank-1.json.gz",
    "event_sync_multi_stream/event_sync_trace.json.gz",
    "h100_bert/gaunernst_bert-small-uncased__1016001.json.gz",
    "h100_qwen/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "mi210_gpu_only/gpu_only_trace.json.gz",
    "mi250_toy/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "mi300_bert/gaunernst_bert-small-uncased__1016001.json.gz",
    "ns_resolution/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "simple_add/benchmark_result_493459_1694039959_trace.json.gz",
    "sglang_decode_graph/sglang_Qwen3-8B_decode.json.gz",
    "torch_compile/trace.json.gz",
    "triton/triton_example.json.gz",
)


WITH_LEAD_IN = "sglang_decode_graph/"
"""Its reference counts as idle what the GPU needs for work from before the recording: 463 ms of a
step of 10. Brute force leaves that out, too."""


LOADS_CODE = "b200_eager/"
"""Its reference counts CUDA's loading of code, which Kineto lists as overhead, as the profiler's.
Ours is initialising, as brute force has it, too: 0.44 ms."""


@cache
def references():
    known = attributed("idle").items()
    return {name: each for name, each in known if each and not name.startswith(WITH_LEAD_IN)}


def test_all_references_are_compared():
    of_eight = {name for name in references() if name.startswith("dlrm_8rank/")}
    assert {*references()} - {*TRACES} == of_eight


@pytest.fixture(scope="module", params=TRACES, ids=lambda trace: trace.partition("/")[0])
def trace(request):
    return request.param


@pytest.fixture(scope="module")
def result(trace):
    return idle_owners(opened(place_of(trace)))


def by(table, *keys):
    return {
        key: int(rows["idle_ns"].sum())
        for key, rows in table.groupby([*keys] if len(keys) > 1 else keys[0])
    }


def names_on_paths(result):
    """Names on the path of each path."""
    found = {-1: frozenset()}
    for row in result.paths.to_dict("records"):
        found[row["path"]] = found[row["parent"]] | {row["name"]}
    return found


def test_equal_to_the_reference(trace, result):
    devices = result.devices.set_index("device")
    of_reference = references().get(trace)
    assert of_reference is None or {str(each) for each in devices.index} == {*of_reference}
    for device, expected in references().get(trace, {}).items():
        row = devices.loc[int(device)]
        for name in ("window_ns", "busy_ns", "idle_ns", "gaps"):
            assert row[name] == expected[name], name
        causes = result.causes[result.causes["device"] == int(device)]
        by_cause = by(causes, "cause")
        if trace.startswith(LOADS_CODE):
            by_cause["profiler"] += by_cause.pop("initialising")
        assert by_cause == expected["by_cause"]
        assert by(causes, "part") == expected["by_part"]


def test_names_equal_the_reference(trace, result):
    names = names_on_paths(result)
    for device, expected in references().get(trace, {}).items():
        owners = result.owners[result.owners["device"] == int(device)]
        innermost = by(owners, "owner")
        assert {name: innermost.get(name) for name in expected["innermost"]} == expected[
            "innermost"
        ]
        below = Counter()
        for path, idle_ns in by(owners, "path").items():
            below.update(dict.fromkeys(names[path], idle_ns))
        assert {name: below[name] for name in expected["within"]} == expected["within"]


def test_time_adds_up(result):
    devices = result.devices
    assert (devices["window_ns"] - devices["busy_ns"]).equals(devices["idle_ns"])
    for table in (result.causes, result.owners):
        assert by(table, "device") == dict(zip(devices["device"], devices["idle_ns"], strict=True))
    keys = ("device", "step", "part", "cause")
    assert by(result.causes, *keys) == by(result.owners, *keys)


def test_the_same_idle_time_as_between_operations(trace, result):
    """Without steps, the intervals between the first and the last operation are those of HTA."""
    if (result.causes["step"] == -1).all():
        devices = idle_time(opened(place_of(trace))).devices
        between = result.causes[result.causes["part"] == "between"]
        assert by(between, "device") == {
            device: int(rows["idle_time_ns"].sum()) for device, rows in devices.groupby("device")
        }


def test_the_same_split_as_that_of_the_idle_time(trace, result):
    """One page shows both; without steps, both have the intervals between operations."""
    if (result.causes["step"] != -1).any():
        return
    between = result.causes[result.causes["part"] == "between"]
    shares = between["cause"].map(lambda name: idle_cause(name).share)
    of_gpu = by(between[shares == Share.GPU], "cause")
    of_host = int(between.loc[shares == Share.HOST, "idle_ns"].sum())
    split = idle_time(opened(place_of(trace))).device_split
    by_part = split.groupby("split", observed=True)["idle_time_ns"].sum().to_dict()
    assert by_part.pop("host") + by_part.pop("launch_call") == of_host
    assert {part: ns for part, ns in by_part.items() if ns} == of_gpu


def test_classes_are_those_of_the_verdict(trace, result):
    """Steps of TimeSformer waited for host code, and its verdict said that they wait for data."""
    job, steps = opened(place_of(trace)), diagnosed(place_of(trace)).steps
    main = job.rank(job.ranks[0]).gpu_work.main_device
    causes = result.causes[result.causes["device"] == main]
    for name, columns in {each.name: each.columns for each in BUDGET}.items():
        if name in IDLE_CLASSES:
            own = causes[causes["class"] == name]
            assert own["idle_ns"].sum() == steps[[*columns]].sum().sum()
