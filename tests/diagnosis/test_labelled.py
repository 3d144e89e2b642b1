"""The labelled set is complete, its labels are true, and its files do not give them away."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hta_widgets import open_trace
from hta_widgets.analyses import temporal_breakdown
from hta_widgets.diagnosis import CAUSES as DIAGNOSED
from tests.diagnosis.labelled import Kind, LabelledJob, healthy_jobs, labelled_jobs, trap_jobs
from tests.diagnosis.labelled.causes import seeds, sick_jobs
from tests.diagnosis.labelled.recordings import RECORDINGS, recorded
from tests.kineto_text import read
from tests.server_loops import OF_INFERENCE
from tests.simulator import CAUSES

pytestmark = pytest.mark.long

LEAST_PERCENT = 8.0
MOST_PERCENT_OF_A_TRAP = 3.5
SLOW_FIRST_STEP = "a slow first step alone"
"""Costs the recording something, and the job nothing: no later step has it."""
SICK = sick_jobs()


def test_every_cause_has_two_seeds_in_each_of_its_layouts() -> None:
    full = {(job.causes[0], job.layout, job.plan.seed) for job in SICK if job.recording == "full"}
    assert full == {
        (cause.name, layout, seed)
        for cause in CAUSES.values()
        for layout in cause.layouts
        for seed in seeds(cause, layout)
    }
    assert {cause for cause, _, _ in full} == {*CAUSES} == {*DIAGNOSED} - {*OF_INFERENCE}


def test_every_recording_has_nearly_every_cause() -> None:
    counts = Counter(job.recording for job in SICK)
    assert all(counts[how] >= len(CAUSES) - 1 for how in RECORDINGS)


def test_every_job_with_a_cause_has_its_twin_in_the_set() -> None:
    healthy = [job.plan for job in healthy_jobs()]
    assert all(job.twin in healthy for job in SICK)
    assert len(trap_jobs()) >= 12
    names = [job.name for job in labelled_jobs()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("job", [j for j in SICK if j.kind is Kind.CAUSE], ids=lambda job: job.name)
def test_cause_costs_what_can_be_found(job: LabelledJob) -> None:
    assert job.label.percent >= LEAST_PERCENT
    assert job.label.causes[0] in CAUSES
    everybody = set(range(job.plan.ranks))
    assert all(ranks <= everybody for ranks in job.label.ranks)


@pytest.mark.parametrize("job", trap_jobs(), ids=lambda job: job.name)
def test_trap_costs_next_to_nothing(job: LabelledJob) -> None:
    assert job.plan != job.twin
    if job.name == SLOW_FIRST_STEP:
        assert job.label.loss_ms * 5 == pytest.approx(job.plan.first_step_ns / 1e6, rel=0.01)
    else:
        assert abs(job.label.percent) <= MOST_PERCENT_OF_A_TRAP


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The ranks of one job with each way to record it."""
    folder = tmp_path_factory.mktemp("recordings")
    job = next(job for job in SICK if job.layout == "sharded")
    found = {}
    for how in ("full", *RECORDINGS):
        plan = recorded(job.plan, how)
        written = LabelledJob(how, Kind.CAUSE, "sharded", how, plan, job.twin).write(folder / how)
        found[how] = [read(path) for path in sorted(written.iterdir())]
    return found


def names(trace: dict[str, Any], category: str) -> list[str]:
    return [e["name"] for e in trace["traceEvents"] if e.get("cat") == category]


def test_recordings_leave_out_what_they_say(traces: dict[str, list[dict[str, Any]]]) -> None:
    def has_fields(trace: dict[str, Any]) -> bool:
        return any("Collective name" in e.get("args", {}) for e in trace["traceEvents"])

    def has_steps(trace: dict[str, Any]) -> bool:
        return any(name.startswith("ProfilerStep") for name in names(trace, "user_annotation"))

    first = {how: of_how[0] for how, of_how in traces.items()}
    assert {how for how, trace in first.items() if not has_fields(trace)} == {
        "no fields",
        "no operators",
    }
    assert {how for how, trace in first.items() if not has_steps(trace)} == {"no steps"}
    assert {how for how, trace in first.items() if not names(trace, "cpu_op")} == {"no operators"}
    assert {how: len(of_how) for how, of_how in traces.items() if how != "one rank"} == (
        dict.fromkeys(set(traces) - {"one rank"}, 8)
    )
    assert len(traces["one rank"]) == 1
    assert {how for how, trace in first.items() if names(trace, "cuda_sync")} == {"waits"}
    assert "pg_config" not in first["no fields"]["distributedInfo"]
    kernels = [name for name in names(first["no fields"], "kernel") if "nccl" in name]
    assert kernels
    assert all(name.startswith("ncclKernel_") for name in kernels)


def test_waits_have_the_fields_of_a_real_trace(
    real_traces: Path, traces: dict[str, list[dict[str, Any]]]
) -> None:
    (path,) = (real_traces / "kineto" / "event_sync_multi_stream").glob("*.json.gz")
    (other,) = (real_traces / "kineto" / "alexnet").glob("*.json.gz")
    rows = [
        {e["name"]: list(e["args"]) for e in trace["traceEvents"] if e.get("cat") == "cuda_sync"}
        for trace in (read(path), read(other), traces["waits"][0])
    ]
    for kind, real in (("Stream Wait Event", rows[0]), ("Context Sync", rows[1])):
        assert rows[2][kind][-len(real[kind]) + 1 :] == real[kind][1:]
    assert rows[2]["Stream Sync"] == rows[1]["Stream Sync"]


def test_clocks_are_seconds_apart(traces: dict[str, list[dict[str, Any]]]) -> None:
    def begins_s(how: str) -> list[float]:
        return [
            next(e["ts"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation") / 1e6
            for trace in traces[how]
        ]

    assert max(begins_s("full")) - min(begins_s("full")) < 0.001
    assert max(begins_s("clocks apart")) - min(begins_s("clocks apart")) > 2


def test_files_do_not_name_the_cause(tmp_path: Path) -> None:
    for number, job in enumerate(job for job in SICK if job.name.endswith("full, seed 0")):
        if job.layout == "pipeline":
            continue
        folder = job.write(tmp_path / str(number))
        text = gzip.decompress(next(folder.iterdir()).read_bytes()).decode()
        assert job.causes[0] not in text


@pytest.mark.parametrize("how", RECORDINGS)
def test_recordings_load_without_notices(how: str, tmp_path: Path) -> None:
    twin = CAUSES["slow_gpu"].healthy_plan("experts", steps=2)
    plan = recorded(twin, how)
    folder = LabelledJob(how, Kind.HEALTHY, "experts", how, plan, twin).write(tmp_path / "job")
    job = open_trace(folder, include_last_profiler_step=True)
    missing = "ranks 0, 2-3 are missing: the traces come from a job with 4 ranks"
    assert list(job.notices) == ([missing] if how == "one rank" else [])
    assert temporal_breakdown(job).finding
