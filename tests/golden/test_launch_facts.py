"""Launches of kernels on real traces: brute force, and the occupancy that the profiler wrote."""

from __future__ import annotations

import json

import pytest

from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.trace.opening.open import open_trace
from tests.golden.reference import place_of
from tests.kineto_text import read
from tests.raw_launches import facts_of, kernels_of, launch_rows, rows_of

NVIDIA = ("h100_qwen", "b200_eager", "ns_resolution", "alexnet", "ddp_rank1of2", "h100_bert")
AMD = ("mi250_toy", "mi300_bert", "torch_compile", "mi210_gpu_only")


@pytest.fixture(scope="module", params=NVIDIA + AMD)
def path(request):
    return place_of(f"{request.param}/*")


@pytest.fixture(scope="module")
def document(path):
    return read(path)


def gpus_of(document):
    """Each device's; one that is not described is like the only kind of GPU that is."""
    described = {each["id"]: each for each in document["deviceProperties"]}
    kinds = {json.dumps({**each, "id": 0}): each for each in described.values()}
    usual = next(iter(kinds.values())) if len(kinds) == 1 else {}
    devices = {each["args"]["device"] for each in kernels_of(document["traceEvents"])}
    return {device: described.get(device, usual) for device in devices}


def test_brute_force_over_the_json(path, document):
    job = open_trace(path, include_last_profiler_step=True, progress=False)
    result = launch_facts(job)
    (rank,) = job.ranks
    expected = launch_rows(kernels_of(document["traceEvents"]), gpus_of(document))
    found = rows_of(result)
    assert {key: row["count"] for key, row in found.items()} == {
        key: row["count"] for key, row in expected.items()
    }
    for key, row in expected.items():
        for name, values in row.items():
            assert found[key][name] == pytest.approx(values, nan_ok=True, rel=1e-9), (key, name)
    events = job.rank(rank).trace.events
    work = job.gpu_work(rank)
    assert result.kernels["gpu_ns"].sum() == sum(
        ns
        for ns, row in zip(work.duration_ns.tolist(), work.rows.tolist(), strict=True)
        if events.kind[row] == events.kind[work.rows].min()
    )


def test_occupancy_is_the_profilers(path, document):
    """What the profiler estimates in whole percent is what the rules here give; AMD's has none."""
    gpus, compared = gpus_of(document), 0
    for event in [] if path.parent.name in AMD else kernels_of(document["traceEvents"]):
        recorded = event["args"]["est. achieved occupancy %"]
        if recorded:
            ours = facts_of(event, gpus[event["args"]["device"]])["occupancy_percent"]
            assert abs(ours - recorded) <= 1, event
            compared += 1
    assert (compared > 0) == (path.parent.name in NVIDIA)
