"""Phases of an inference server are diagnosed apart."""

from __future__ import annotations

import pytest

from hta_widgets import Dashboard, diagnose, open_trace, replay
from hta_widgets.analyses.operators import operators
from hta_widgets.analyses.server_steps import phases_of, server_steps
from hta_widgets.cli import main
from hta_widgets.diagnosis.critical_path import critical_path
from hta_widgets.diagnosis.what_if import what_if
from hta_widgets.errors import ParameterError, UnknownStepError
from hta_widgets.panels.bands.budget import budget_band
from hta_widgets.panels.base.finding_rows import finding_rows
from hta_widgets.panels.base.selection import Selection
from hta_widgets.quantities import duration
from tests.diagnosis.findings.thresholds import Case, cases
from tests.explained.findings import explain_verdict
from tests.kineto_text import host, write
from tests.server_loops import DECODE, PREPARES, Loop, Step, vllm

PROMPTS = Step(context=2, tokens=4096, kernel_us=200.0)
SLOW = [Step(generation=16, kernel_us=3.0)] * 12
"""Decoding that its host cannot keep up with, as nothing is captured."""


@pytest.fixture
def trace(tmp_path):
    plan = [PROMPTS, *SLOW, *SLOW[:1], PROMPTS, PROMPTS]  # which hold up no running request
    return write(tmp_path / "rank-0.json", Loop(graphs=False, ahead=True).record(plan))


@pytest.fixture
def job(trace):
    return open_trace(trace, progress=False)


def test_the_phase_with_most_time_is_diagnosed_and_the_other_one_named(job):
    steps = server_steps(job).steps
    of_phase = steps.groupby("phase")["period_ns"].sum()
    assert phases_of(job) == {
        each: tuple(steps.loc[steps["phase"] == each, "step"]) for each in ("prefill", "decode")
    }
    assert of_phase["prefill"] > of_phase["decode"]
    found = diagnose(job)
    assert found.phase == "prefill"
    decoding = diagnose(job, phase="decode")
    (said,) = (each for each in found.notices if each.startswith("the findings cover"))
    assert said == (
        "the findings cover 2 prefill steps; phase='decode' diagnoses the 13 decode steps "
        f"(step_gap: {duration(decoding[0].recoverable_ms * 1e6)} of each "
        f"{duration(decoding.step_ns)})"
    )
    assert {*found.steps["step"]} == {0, 14}


def test_where_the_diagnosed_phase_is_healthy_the_verdict_names_what_is_not(tmp_path):
    """A server whose decoding was healthy prepared images for most of each step with a prompt."""
    image = Step(context=1, tokens=1024, generation=15, kernel_us=120.0)
    events = Loop(host_us=20).record([*[DECODE] * 5, image] * 3)
    for each in reversed([*events]):
        if each["name"] == vllm(image):
            later = [one for one in events if one["ts"] >= each["ts"]]
            for one in later:
                one["ts"] += 4_000
            events.append(host(each["ts"] - 4_000, 3_990, PREPARES, cat="python_function"))
    found = diagnose(open_trace(write(tmp_path / "rank-0.json", events), progress=False))
    assert (found.phase, found.status) == ("decode", "findings")
    (finding,) = diagnose(found.job, phase="mixed")
    assert finding.cause == "preprocessing"
    words = (
        f"preprocessing: {duration(finding.recoverable_ms * 1e6)} of each "
        f"{duration(diagnose(found.job, phase='mixed').step_ns)}"
    )
    assert found.finding.startswith(
        f"Nothing stands out in decode steps, but in mixed steps, {words}. "
    )
    assert not explain_verdict(found)
    assert f"diagnoses the 2 mixed steps ({words})" in " ".join(found.notices)
    only = diagnose(found.job, phase="decode")  # who asks for it is not told of others
    assert " nothing stands out: none of " in only.finding


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_step_is_the_mean_one_of_its_phase(job, phase):
    steps = server_steps(job).steps
    own = steps.loc[steps["phase"] == phase, "period_ns"]
    found = diagnose(job, phase=phase)
    assert found.step_ns == pytest.approx(own.mean(), rel=0.02)
    assert found.period_ns == pytest.approx(own.mean())


def test_what_is_found_is_said_of_the_phase(job):
    (finding, *_) = diagnose(job, phase="decode")
    assert " decode step (" in finding.sentence


def test_steps_that_are_asked_for_are_of_any_phase(job):
    assert diagnose(job, steps=[5, 6]).phase == ""
    both = diagnose(job, steps=[13, 14], phase="decode")
    assert {*both.steps["step"]} == {13}
    with pytest.raises(UnknownStepError):
        diagnose(job, steps=[14], phase="decode")


def test_a_phase_that_is_not_there_is_an_error(job, tmp_path):
    with pytest.raises(
        ParameterError, match="no steps of phase 'mixed'; it has decode and prefill steps"
    ):
        diagnose(job, phase="mixed")
    plan = [DECODE] * 4
    events = [
        each for each in Loop().record(plan) if not each["name"].startswith("execute_context")
    ]
    path = write(tmp_path / "other.json", events)
    with pytest.raises(
        ParameterError, match="no steps of phase 'decode'; no inference server was recorded"
    ):
        diagnose(open_trace(path, progress=False), phase="decode")


def test_of_one_phase_nothing_is_said_of_phases(tmp_path):
    path = write(tmp_path / "rank-0.json", Loop().record([DECODE] * 8))
    found = diagnose(path)
    assert found.phase == "decode"
    assert not [each for each in found.notices if "phase" in each]


@pytest.mark.parametrize(
    ("steps", "begins_late", "kept"),
    [
        (8, False, [1, 2, 3, 4, 5, 6]),
        (8, True, [*range(7)]),
        (4, False, [1, 2]),
        (3, False, [0, 1]),
    ],
    ids=["as the others", "longer", "three steps", "two steps"],
)
def test_a_step_whose_front_is_not_recorded_is_not_diagnosed(tmp_path, steps, begins_late, kept):
    """The gap before its work is missing: the mean of 23 such steps would lack a 23rd of it."""
    events = Loop(host_us=800).record([DECODE] * steps)
    if begins_late:  # as if it loaded what the others use
        first = min(each["ts"] for each in events if each["name"] == "cudaGraphLaunch")
        for each in events:
            each["ts"] += 9_000 * (each["ts"] >= first)
            each["dur"] += 9_000 * (each["ts"] < first)
    found = diagnose(write(tmp_path / "rank-0.json", events))
    assert found.steps["step"].tolist() == kept
    assert sorted(replay(tmp_path / "rank-0.json").steps) == kept


def test_the_command_line_takes_a_phase(trace, capsys):
    assert main(["diagnose", str(trace), "--phase", "decode"]) == 0
    said = capsys.readouterr().out
    assert "vLLM server: 15 steps (13 decode, 2 prefill)" in said
    assert "1 finding\n" in said
    assert main(["diagnose", str(trace), "--phase", "mixed"]) == 2
    assert "no steps of phase 'mixed'" in capsys.readouterr().err


def test_a_replay_is_of_the_same_phase(job):
    found, replayed = diagnose(job), replay(job)
    assert replayed.steps == tuple(sorted({*found.steps["step"]})) == phases_of(job)["prefill"]
    assert replayed.step_ms * 1e6 == found.step_ns
    assert what_if(job).recorded_ms == replayed.step_ms
    assert critical_path(job).path.length_ns == pytest.approx(found.step_ns * len(found.steps))
    assert len(replay(job, steps=range(15)).steps) == 15


def test_the_budget_says_of_which_steps_it_is(job):
    found = diagnose(job)
    band = budget_band(found, Selection(), finding_rows(found, found))
    assert band["whose"].startswith("rank 0, 2 prefill steps, in ms")


def job_of(folder, plans):
    for rank, plan in enumerate(plans):
        info = {"rank": rank, "world_size": len(plans), "backend": "nccl"}
        events = Loop(host_us=900).record(plan)
        write(folder / f"rank-{rank}.json", events, distributedInfo=info)
    return open_trace(folder, progress=False)


@pytest.mark.parametrize("later", [1, 3])
def test_ranks_whose_recordings_begin_apart_have_the_same_steps(tmp_path, later):
    plan = [*[DECODE] * 5, PROMPTS, *[DECODE] * 6]
    job = job_of(tmp_path, [plan, plan[later:]])
    steps = server_steps(job).steps
    assert (steps.groupby("step")["label"].nunique() == 1).all()
    assert steps.groupby("rank")["step"].min().tolist() == [0, later]
    firsts = {0, later}  # of the two recordings
    decodes = tuple(sorted({*range(11)} - {5} - firsts))
    assert phases_of(job) == {"decode": decodes, "prefill": (5,)}
    assert {*diagnose(job, phase="decode").steps["step"]} == {*range(later + 1, 11)} - {5}
    assert {*operators(job, steps=[5]).ranks["rank"]} == {0, 1}
    many = "1 step" if later == 1 else f"{later} steps"
    assert any(
        each.startswith(f"the recording of rank 1 starts up to {many} later")
        for each in job.notices
    )


@pytest.mark.parametrize(("requests", "is_slow"), [(16, True), (8, False)])
def test_equal_launches_for_other_requests_are_no_equal_work(tmp_path, requests, is_slow):
    """Kernels with a block for each multiprocessor, whatever the batch: a slow GPU was named."""
    for rank, (kernel_us, each) in enumerate(((200.0, 16), (140.0, requests))):
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        events = Loop().record([Step(generation=each, kernel_us=kernel_us)] * 8)
        for event in events:
            if event["cat"] == "kernel":
                event["args"] |= {"grid": [264, 1, 1], "block": [256, 1, 1]}
        write(tmp_path / f"rank-{rank}.json", events, distributedInfo=info)
    causes = [each.cause for each in diagnose(tmp_path)]
    assert ("slow_gpu" in causes) == is_slow


def test_a_step_in_which_ranks_are_in_different_phases_is_of_none(tmp_path):
    """Two ranks with requests of their own."""
    plan = [*[DECODE] * 5, PROMPTS, *[DECODE] * 6]
    other = [*[DECODE] * 4, PROMPTS, *[Step(generation=17)] * 6]
    job = job_of(tmp_path, [plan, other])
    assert phases_of(job) == {"decode": (1, 2, 3, 6, 7, 8, 9, 10)}
    found = diagnose(job)
    assert found.phase == "decode"
    assert {*found.steps["step"]} == {1, 2, 3, 6, 7, 8, 9}  # the last one is of one rank
    assert "prefill" not in "".join(str(each.sentence) for each in found)


@pytest.mark.parametrize(("lost", "is_said"), [(0, False), (2, False), (3, True), (8, True)])
def test_steps_whose_replays_were_lost_are_no_steps_of_no_time(tmp_path, lost, is_said):
    """Where roctracer's buffer was full, half of the steps took 0 ms, and no word was said."""
    loop = Loop(ahead=True, lost=frozenset(range(16 - lost, 16)))
    found = diagnose(write(tmp_path / "rank-0.json", loop.record([DECODE] * 16)))
    said = f"{lost} of 16 graph launches have no recorded GPU work: the recorder lost it"
    assert any(each.startswith(said) for each in found.notices) is is_said
    assert found.step_ns == pytest.approx(2e6, rel=0.02)
    assert not [*found]


def test_the_steps_of_a_dashboard_have_their_phase_and_requests(tmp_path):
    path = write(tmp_path / "rank-0.json", Loop().record([DECODE] * 6))
    board = Dashboard(open_trace(path, progress=False))
    table = board.panels["steps"].table
    assert [*table.columns][:3] == ["step", "phase", "requests"]
    assert {*table["phase"]} == {"decode"}
    assert table["requests"].tolist() == [16] * 4


def names_a_phase(folder, percent):
    """Whether a phase with this part of the time is said to be worth a diagnosis of its own."""
    prompts = Step(context=2, tokens=4096, kernel_us=1_000 * percent / (100 - percent))
    plan = [*[DECODE] * 5, prompts, *[DECODE] * 6]
    found = diagnose(write(folder / "rank-0.json", Loop(ahead=True).record(plan)))
    assert found.phase == "decode"
    return any("phase='prefill' diagnoses the 1 prefill step" in each for each in found.notices)


def goes_on_in_a_graph(folder, part):
    """Whether it is said that a graph takes this part of its time between kernels."""
    loop = Loop(ahead=True, kernels=100)
    events = loop.record([Step(generation=16, kernel_us=10)] * 6)
    for each in events:
        if each["cat"] == "kernel":
            each["dur"] = 10 * (1 - part)
    found = diagnose(write(folder / "rank-0.json", events))
    assert found.status == "healthy"
    assert not any("while the host works" in each for each in found.notices)
    return any("CUDA graphs go from one kernel to the next" in each for each in found.notices)


test_thresholds = cases(
    Case("notices.WITHIN_GRAPHS", goes_on_in_a_graph, {0.145: False, 0.155: True}),
    Case("notices.PHASE_PERCENT", names_a_phase, {19.3: False, 20.7: True}),
)
