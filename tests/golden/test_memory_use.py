"""Memory use on real traces: the reference values, and brute force over the JSON."""

from __future__ import annotations

from collections import Counter

import pytest

from hta_widgets.analyses.memory_use import memory_use
from tests.golden.reference import attributed, opened, place_of
from tests.kineto_text import events_of
from tests.raw_memory import raw_memory

TRACES = (
    "ddp_rank1of2/rank-1.json.gz",
    "h100_bert/gaunernst_bert-small-uncased__1016001.json.gz",
    "h100_qwen/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "mi300_bert/gaunernst_bert-small-uncased__1016001.json.gz",
)
TYPES = {0: "CPU", 1: "CUDA", 6: "HIP"}
PEAK_COLUMNS = {
    "events": "events",
    "alloc_bytes": "allocated_in_all_bytes",
    "peak_bytes": "bytes",
    "mismatch": "breaks",
}


def test_all_references_are_compared():
    assert {name for name, each in attributed("memory").items() if each} == {*TRACES}


@pytest.fixture(scope="module", params=TRACES, ids=lambda trace: trace.partition("/")[0])
def trace(request):
    return request.param


@pytest.fixture(scope="module")
def path(trace):
    return place_of(trace)


@pytest.fixture(scope="module")
def result(path):
    return memory_use(opened(path))


def of_device(table, device_type, device):
    return table[(table["device_type"] == TYPES[device_type]) & (table["device"] == device)]


def test_reference_values(trace, result):
    expected = attributed("memory")[trace]
    assert len(result.peak) == len(expected)
    for key, values in expected.items():
        device = tuple(int(part) for part in key.split(":"))
        peak = of_device(result.peak, *device).iloc[0]
        curve = of_device(result.curve, *device).reset_index(drop=True)
        assert {name: peak[column] for name, column in PEAK_COLUMNS.items()} == {
            name: values[name] for name in PEAK_COLUMNS
        }
        allocated = curve["allocated_bytes"]
        assert int(allocated.idxmax()) == values["peak_event"]
        assert curve["time_ns"][values["peak_event"]] == peak["time_ns"]
        assert curve["reserved_bytes"].max() == values["max_reserved"]
        assert allocated.iloc[-1] == values["start_bytes"] + values["net_bytes"]


def test_brute_force(path, result):
    for device, expected in raw_memory(events_of(path)).items():
        peak = of_device(result.peak, *device).iloc[0]
        alive = of_device(result.alive_at_peak, *device)
        before = alive["category"] == "before the recording"
        assert peak["bytes"] == expected.peak_bytes
        assert alive["bytes"].sum() == expected.peak_bytes, "what is alive adds up exactly"
        assert alive["bytes"][~before].sum() == expected.alive_bytes
        assert alive["bytes"][before].sum() == expected.before_bytes
        assert alive["blocks"].sum() == expected.blocks
        owners = alive[~before].groupby("operator")["bytes"].sum()
        assert Counter(owners.to_dict()) == expected.owners


def test_what_fills_the_peak(trace, result):
    """The categories of a training job and of two inferences, as a person would tell them."""
    gpu = result.alive_at_peak[result.alive_at_peak["device"] >= 0]
    by_category = gpu.groupby("category")["bytes"].sum().to_dict()
    if trace.startswith("ddp_rank1of2"):
        assert by_category["activation"] == 1_333_781_504
        assert set(by_category) == {"activation", "before the recording", "other"}
        assert result.finding == (
            "The memory of GPU 1 peaks at 6.63 GB of 12.8 GB reserved: 61.8 % was allocated before "
            "the recording; 20.1 % are activations; 1.04 GB was allocated by aten::mm."
        )
    else:
        assert not {"activation", "gradient", "optimizer state"} & set(by_category)
    if trace.startswith("mi300"):
        assert gpu["caller"].iloc[0] == "aten::addmm"
        assert gpu["operator"].iloc[0] == "aten::empty"
        assert gpu["module"].iloc[0].startswith("BertLMHeadModel_0 › BertOnlyMLMHead_0 › BertLMP")


def test_steps_of_a_training_job_leave_nothing_behind():
    path = place_of("ddp_rank1of2/rank-1.json.gz")
    result = memory_use(opened(path), device=1)
    assert result.steps["step"].tolist() == [2, 3, 4, 5, 6]
    assert set(result.steps["allocated_at_end_bytes"]) == {4_096_614_400}
    assert result.steps["surviving_bytes"].tolist() == [0, 0, 0, 0, -1]
    assert result.survivors.empty
    assert "grows" not in result.finding
