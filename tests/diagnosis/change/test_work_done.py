"""What jobs do per time: tokens of servers, samples of a DataLoader, what GPUs do."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets import open_trace
from hta_widgets.cli.compare.document import document
from hta_widgets.cli.compare.markdown import markdown
from hta_widgets.cli.compare.report import report
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.several import pooled
from hta_widgets.diagnosis.change.summary import summary
from tests.diagnosis.change.made import job_of
from tests.diagnosis.findings.scripts import Host
from tests.kineto_text import step, write
from tests.server_loops import Loop, Step, sglang, vllm

ROWS = [("compute", "Net_0", "aten::mm", "gemm", 10_000_000)]


def served(folder, requests, *, kernel_us=100.0, name=vllm):
    plan = [Step(generation=each, kernel_us=kernel_us) for each in requests]
    events = Loop(name=name).record(plan)
    return open_trace(write(folder / f"{len(list(folder.iterdir()))}.json", events), progress=False)


@pytest.mark.parametrize("name", [vllm, sglang])
def test_tokens_are_those_of_the_steps_that_count(tmp_path, name):
    requests = [16] * 12
    found = summary(served(tmp_path, requests, name=name))
    assert found.work["generated tokens"] == 16 * len(found.steps)
    assert found.work["prompt tokens"] == 0
    seconds = found.steps["period_ns"].sum() / 1e9
    assert found.per_second("generated tokens") == pytest.approx(16 * len(found.steps) / seconds)


def test_more_tokens_in_a_longer_step_are_no_regression(tmp_path):
    few, many = served(tmp_path, [16] * 12), served(tmp_path, [32] * 12, kernel_us=120.0)
    change = explain_change(few, many)
    assert change.verdict == "method changed"
    said = "Generated tokens of a step: 16 → 32; a step does different work."
    assert change.finding.startswith(f"Not comparable as they are. {said}")
    rates = [each.per_second("generated tokens") for each in (change.first, change.second)]
    assert rates[1] > 1.5 * rates[0]
    assert f"with {rates[1]:,.0f} generated tokens per second instead of {rates[0]:,.0f} (+" in (
        change.finding
    )


def test_as_many_tokens_in_a_longer_step_are_a_regression(tmp_path):
    change = explain_change(
        served(tmp_path, [16] * 12), served(tmp_path, [16] * 12, kernel_us=120.0)
    )
    assert change.verdict == "regression"
    assert " generated tokens per second instead of " in change.finding
    [tokens] = change.work
    ratio = change.first.mean_ns / change.second.mean_ns
    assert tokens.second_per_s / tokens.first_per_s == pytest.approx(ratio, rel=1e-6)


def trained(folder, rows, *, loads=1, loader="_SingleProcessDataLoaderIter", marked=True):
    """Six steps that copy tensors with so many rows to the GPU, after a DataLoader made them."""
    script = Host()
    for number in range(6):
        begin = script.now
        for _ in range(loads):
            if loader:
                script.does(f"enumerate(DataLoader)#{loader}.__next__", 50, "user_annotation")
            for count in rows:
                script.launch(
                    20,
                    operator="aten::copy_",
                    shapes=[[count, 8], [count, 8], []],
                    name="Memcpy HtoD (Pinned -> Device)",
                    cat="gpu_memcpy",
                )
        script.launch(100, operator="aten::mm", shapes=[[64, 8], [8, 8]])
        script.does("aten::add", 300)
        if marked:
            script.events.append(step(number, begin, script.now - begin))
    return open_trace(write(folder / "rank-0.json", script.events), progress=False)


@pytest.mark.parametrize(
    ("given", "of_a_step"),
    [
        ({"rows": [32]}, 32),
        ({"rows": [32, 32]}, 32),
        ({"rows": [32], "loads": 2}, 64),
        ({"rows": [32, 4096]}, None),
        ({"rows": [32], "loader": ""}, None),
        ({"rows": []}, None),
    ],
)
def test_samples_are_batches_times_the_rows_of_all_that_is_copied(tmp_path, given, of_a_step):
    found = summary(trained(tmp_path, **given))
    told = found.work.get("samples")
    assert told == (of_a_step and of_a_step * len(found.steps))


def test_samples_of_a_recording_without_steps_are_those_of_all_of_it(tmp_path):
    assert summary(trained(tmp_path, [32], marked=False)).work["samples"] == 6 * 32


def test_work_of_ranks_and_recordings_adds_up_where_all_state_it():
    one = job_of(ROWS, work={"samples": 10, "launches": 3})
    other = job_of(ROWS, work={"samples": 14})
    assert pooled([one, other]).work == {"samples": 24}
    assert np.isnan(pooled([one, other]).per_second("launches"))
    # twice the steps in twice the time
    assert pooled([one, one]).per_second("samples") == one.per_second("samples")


def test_recordings_of_a_fixed_length_are_compared_by_what_they_did():
    before = {"steps": 1, "steps_marked": False}
    first = job_of(ROWS, work={"runs of one compiled graph": 40, "kernels and copies": 4}, **before)
    second = job_of(
        ROWS, work={"runs of one compiled graph": 50, "kernels and copies": 5}, **before
    )
    change = explain_change(first, second)
    assert change.verdict == "cannot tell"
    said = (
        "In recordings of 10 ms and 10 ms, there are 4,000 and 5,000 runs of one compiled graph "
        "per second (+25 %)."
    )
    assert said in change.finding
    assert [each.what for each in change.work] == [
        "runs of one compiled graph",
        "kernels and copies",
    ]


@pytest.mark.parametrize(
    ("length", "marked", "is_told"),
    [(1.019, False, True), (1.021, False, False), (1.0, True, False)],
)
def test_what_gpus_do_is_a_measure_only_of_recordings_of_one_length(length, marked, is_told):
    """Fused kernels are fewer, and do as much."""
    first, second = (
        job_of(
            [("compute", "", "", "gemm", round(ns))],
            work={"kernels and copies": count},
            steps=1,
            steps_marked=marked,
        )
        for ns, count in ((1e7, 500), (length * 1e7, 100))
    )
    assert bool(explain_change(first, second).work) == is_told


@pytest.mark.parametrize(("second", "verdict"), [(1.04, "noise"), (1.06, "method changed")])
def test_a_few_tokens_more_are_the_same_work(second, verdict):
    jobs = [job_of(ROWS, work={"samples": round(1_000 * each)}) for each in (1, second)]
    assert explain_change(*jobs).verdict == verdict


def test_work_per_time_is_in_every_form():
    first, second = (job_of(ROWS, work={"samples": count}) for count in (160, 320))
    change = explain_change(first, second)
    words = "samples: 3,200 → 6,400 per second (+100 %)"
    assert f"Work per time:\n    - {words}\n" in report(change)
    assert "Work per time:\n\n- samples\\: 3,200 → 6,400 per second \\(\\+100 %\\)\n" in markdown(
        change
    )
    assert json.loads(json.dumps(document(change)))["work"] == [
        {"what": "samples", "first_per_s": 3200.0, "second_per_s": 6400.0}
    ]
