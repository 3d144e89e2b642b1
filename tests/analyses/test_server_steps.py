"""Steps of inference servers: marks, phases, gaps and the line that says how fast they are."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.server_steps import recording_in_words, server_steps, steady_state
from hta_widgets.diagnosis import diagnose
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, step, write
from tests.server_loops import (
    DECODE,
    LAUNCH_US,
    PREFILL,
    PREPARE_US,
    START_US,
    Loop,
    Step,
    sglang,
    vllm,
)

US = 1_000


def job_of(path, events):
    return open_trace(write(path / "rank-0.json", events), progress=False)


def test_gaps_of_a_loop_that_waits_for_its_tokens(tmp_path):
    job = job_of(tmp_path, Loop(host_us=3_000, kernels=20).record([DECODE] * 10))
    result = server_steps(job)
    assert result.steps["step"].tolist() == [*range(9)]  # the last one may be cut
    later = result.steps.iloc[1:]
    assert set(later["scheduling_ns"]) == {3_000 * US}
    assert set(later["preparing_ns"]) == {PREPARE_US * US}
    assert set(later["gap_before_ns"]) == {(3_000 + PREPARE_US + LAUNCH_US + START_US) * US}
    assert set(later["busy_ns"]) == {2_000 * US}
    assert set(later["gap_inside_ns"]) == {0}
    assert set(later["graphs"]) == {1}
    assert set(later["kernels"]) == {20}
    (phase,) = result.phases.to_dict("records")
    assert phase["phase"] == "decode"
    assert (phase["steps"], phase["like"], phase["requests"]) == (9, 8, 16)
    period_us = 5_000 + PREPARE_US + LAUNCH_US + START_US
    assert phase["period_ns"] == period_us * US
    assert phase["output_tokens_per_s"] == pytest.approx(16e6 / period_us)
    assert phase["output_token_ns"] == phase["period_ns"]
    assert (phase["output_tokens"], phase["prompt_tokens"]) == (9 * 16, 0)
    assert result.finding == (
        "vLLM server: 9 decode steps, decode 5.07 ms, 16 requests, "
        f"{16e6 / period_us:,.0f} tokens/s"
    )
    assert recording_in_words(job) == result.finding


def test_a_loop_that_runs_ahead_has_no_gaps(tmp_path):
    job = job_of(tmp_path, Loop(host_us=1_500, ahead=True).record([DECODE] * 10))
    later = server_steps(job).steps.iloc[1:]
    assert set(later["gap_before_ns"]) == {0}
    assert set(later["period_ns"]) == {2_000 * US}


def test_what_is_launched_kernel_by_kernel_waits_inside(tmp_path):
    plan = [Step(generation=16, kernel_us=2.0)] * 6
    result = server_steps(job_of(tmp_path, Loop(graphs=False).record(plan)))
    inside = result.steps.iloc[1:]["gap_inside_ns"]
    assert set(inside) == {19 * int(LAUNCH_US + 2 - 2) * US}
    assert set(result.steps["graphs"]) == {0}


@pytest.mark.parametrize("name", [vllm, sglang])
def test_phases_are_counted_apart(tmp_path, name):
    plan = [PREFILL, *[DECODE] * 8, Step(context=1, tokens=64, generation=16), *[DECODE] * 3]
    result = server_steps(job_of(tmp_path, Loop(name=name).record(plan)))
    table = result.phases.set_index("phase")
    assert table["steps"].to_dict() == {"decode": 10, "mixed": 1, "prefill": 1}
    assert table["share_percent"].sum() == pytest.approx(100)
    assert table.loc["prefill", "prompt_tokens_per_s"] > 0
    assert table.loc["decode", "prompt_tokens_per_s"] == 0
    assert "12 steps (10 decode, 1 mixed, 1 prefill), decode 2.27 ms" in result.finding


def test_numbers_that_a_name_does_not_say_are_unknown(tmp_path):
    events = Loop(name=lambda each: f"execute_new_{each.context}_cached_{each.generation}").record(
        [DECODE] * 8
    )
    result = server_steps(job_of(tmp_path, events))
    assert result.steps["generation_tokens"].isna().all()
    assert set(result.steps["generation_requests"]) == {16}
    assert np.isnan(result.phases["output_tokens_per_s"][0])
    assert "tokens" not in result.finding


def test_verified_tokens_are_not_called_output(tmp_path):
    events = Loop(name=lambda each: f"step[TARGET_VERIFY bs={each.generation} g_sq=64]").record(
        [DECODE] * 8
    )
    result = server_steps(job_of(tmp_path, events))
    assert np.isnan(result.phases["output_tokens_per_s"][0])
    assert "verified tokens/s" in result.finding


def test_of_one_step_tokens_are_of_this_step(tmp_path):
    result = server_steps(job_of(tmp_path, Loop().record([DECODE])))
    assert result.finding.startswith("vLLM server: 1 decode step, ")
    assert result.finding.endswith(" tokens/s of this step")


def test_a_load_that_changes_has_no_steady_state(tmp_path):
    plan = [Step(generation=each) for each in (3, 9, 27, 60, 6, 30, 14)]
    result = server_steps(job_of(tmp_path, Loop().record(plan)))
    assert result.finding == "vLLM server: 6 decode steps, no steady state: 3 to 60 requests"


def test_a_steady_state_begins_after_the_first_step():
    def of(requests):
        rows = [("decode", each, True, 0, 0) for each in requests]
        names = ["phase", "generation_requests", "recorded", "no_requests_ns", "unrecorded_ns"]
        return pd.DataFrame(rows, columns=names)

    assert steady_state(of([10] * 6)).index.tolist() == [1, 2, 3, 4, 5]
    assert not len(steady_state(of([10] * 5)))
    assert steady_state(of([10, 20, 20, 22, 20, 18, 23, 20])).index.tolist() == [1, 2, 3, 4, 5]


def test_iterations_without_a_request_are_no_steps(tmp_path):
    job = job_of(tmp_path, Loop().record([DECODE] * 3 + [Step()] * 2 + [DECODE] * 3))
    steps = job.rank(0).server_steps
    assert len(steps) == 6
    lasts_ns = steps.idle_end_ns - steps.idle_start_ns
    assert lasts_ns.tolist() == [(500 + 200 + PREPARE_US + 3) * US] * 2
    assert (server_steps(job).steps["phase"] == "decode").all()
    assert steps.end_ns[2] < steps.start_ns[3]


def test_work_that_the_recorder_lost_is_no_idle_step(tmp_path):
    lost = frozenset(range(6, 12))
    result = server_steps(job_of(tmp_path, Loop(ahead=True, lost=lost).record([DECODE] * 12)))
    assert result.steps["recorded"].tolist() == [True] * 6 + [False] * 5
    assert result.phases["like"][0] == 5


def test_a_span_in_another_one_is_the_same_step(tmp_path):
    """AMD's builds of SGLang write the name of vLLM around their own."""
    events = Loop().record([DECODE] * 4)
    spans = [each for each in events if each["name"].startswith("execute_")]
    inner = [
        host(each["ts"] + 5, 20, "step[DECODE bs=16]", cat="user_annotation") for each in spans
    ]
    job = job_of(tmp_path, [*events, *inner])
    assert len(job.rank(0).server_steps) == 4
    assert set(server_steps(job).steps["engine"]) == {"SGLang"}


def test_all_spans_of_a_batch_are_one_step_that_begins_with_it(tmp_path):
    events = Loop(name=sglang).record([DECODE] * 4)
    spans = [each for each in events if each["name"].startswith("step[")]
    around = [
        host(each["ts"] - 50, each["dur"] + 90, "scheduler.run_batch", cat="user_annotation")
        for each in spans
    ]
    draft = [host(each["ts"] + each["dur"] + 5, 9, "step[EXTEND bs=16 toks=16]") for each in spans]
    parts = [host(each["ts"] + each["dur"] + 20, 9, "step[DRAFT_EXTEND bs=16]") for each in spans]
    steps = job_of(tmp_path, [*events, *around, *draft, *parts]).rank(0).server_steps
    assert len(steps) == 4
    assert (steps.span_ns - steps.start_ns == 50 * US).all()
    assert {each.phase for each in steps.spans} == {"decode"}


def test_the_thread_with_most_steps_counts(tmp_path):
    events = Loop().record([DECODE] * 5)
    others = [host(10 + 9 * n, 5, "execute_context_1(9)_generation_0(0)", tid=7) for n in range(3)]
    steps = job_of(tmp_path, [*events, *others]).rank(0).server_steps
    assert {each.phase for each in steps.spans} == {"decode"}


class TestProfilerSteps:
    """Where both mark steps."""

    def steps(self, tmp_path, marks, *others):
        return job_of(tmp_path, [*Loop().record([DECODE] * 6), *marks, *others]).rank(0).steps

    def test_one_for_each_span_is_the_mark(self, tmp_path):
        events = Loop().record([DECODE] * 6)
        spans = [each for each in events if each["name"].startswith("execute_")]
        marks = [step(7 + n, each["ts"] - 9, 99) for n, each in enumerate(spans)]
        steps = self.steps(tmp_path, marks)
        assert steps.source == "ProfilerStep"
        assert steps.distinct == (7, 8, 9, 10, 11, 12)
        alone = server_steps(job_of(tmp_path, events))
        both = server_steps(job_of(tmp_path, [*events, *marks]))
        assert both.steps["step"].tolist() == [7, 8, 9, 10, 11]
        same = ["label", "phase", "generation_tokens", "busy_ns", "gap_inside_ns", "graphs"]
        pd.testing.assert_frame_equal(both.steps[same], alone.steps[same])
        assert both.finding == alone.finding

    def test_one_around_several_is_none(self, tmp_path):
        marks = [step(7, 990, 7_000), step(8, 7_990, 90_000)]
        steps = self.steps(tmp_path, marks)
        assert steps.source == "server"
        assert steps.distinct == (0, 1, 2, 3, 4, 5)

    def test_of_training_with_a_rollout_they_are_those_of_the_training(self, tmp_path):
        marks = [step(7, 990, 7_000), step(8, 7_990, 90_000)]
        optimizer = host(50_000, 10, "Optimizer.step#AdamW.step", cat="user_annotation")
        assert self.steps(tmp_path, marks, optimizer).source == "ProfilerStep"
        job = job_of(tmp_path, [*Loop().record([DECODE] * 6), *marks, optimizer])
        assert not len(server_steps(job).steps)


PROMPTS = Step(context=1, tokens=8192, kernel_us=600.0)


def stalls(tmp_path, plan, **options):
    job = job_of(tmp_path, Loop(ahead=True, **options).record(plan))
    said = [each for each in server_steps(job).notices if each.startswith("prompts hold up")]
    assert any(each.cause == "prefill_stall" for each in diagnose(job)) == bool(said)
    return said


def test_prompts_that_hold_up_running_requests(tmp_path):
    plan = [*[DECODE] * 8, PROMPTS, PROMPTS, *[DECODE] * 8, PROMPTS, *[DECODE] * 5]
    (said,) = stalls(tmp_path, plan, kernels=20)
    # 20 kernels of 100 or 600 µs in a step; of 21 decode steps, the last one is left out
    assert said == (
        "prompts hold up running requests 3 times, up to 12 ms, 6 times as long as a decode step: "
        "1.8 ms per output token"
    )


@pytest.mark.parametrize(
    ("plan", "is_said"),
    [
        # five decode steps, and a prompt between two of them that takes as long
        ([*[DECODE] * 3, Step(context=1, kernel_us=510.0), *[DECODE] * 3], True),
        ([*[DECODE] * 2, Step(context=1, kernel_us=510.0), *[DECODE] * 3], False),
        ([*[DECODE] * 3, Step(context=1, kernel_us=490.0), *[DECODE] * 3], False),
        # a fifth of all time
        ([*[DECODE] * 10, Step(context=1, kernel_us=510.0), *[DECODE] * 11], True),
        ([*[DECODE] * 10, Step(context=1, kernel_us=510.0), *[DECODE] * 13], False),
        # before requests run, and after
        ([PROMPTS, PROMPTS, *[DECODE] * 9], False),
        ([*[DECODE] * 9, PROMPTS, PROMPTS], False),
        # of a mixed step, what it takes more
        ([*[DECODE] * 3, Step(context=1, generation=9, kernel_us=610.0), *[DECODE] * 3], True),
        ([*[DECODE] * 3, Step(context=1, generation=9, kernel_us=590.0), *[DECODE] * 3], False),
    ],
)
def test_when_prompts_hold_up(tmp_path, plan, is_said):
    assert bool(stalls(tmp_path, plan, kernels=20)) == is_said


def test_an_engine_that_counts_its_steps_is_believed(tmp_path):
    numbers = iter(range(60_000, 60_005))
    events = Loop(
        name=lambda each: (
            f"[Executor] _forward_step {next(numbers)}: 0 ctx reqs, 0 ctx tokens, "
            f"{each.generation} gen reqs"
        )
    ).record([DECODE] * 5)
    assert server_steps(job_of(tmp_path, events)).steps["step"].tolist() == [*range(60_000, 60_004)]


@given(
    plan=st.lists(
        st.builds(
            Step,
            context=st.integers(0, 2),
            tokens=st.just(128),
            generation=st.integers(0, 4),
            kernel_us=st.sampled_from([1.0, 7.0, 40.0]),
        ),
        min_size=1,
        max_size=8,
    ),
    ahead=st.booleans(),
    host_us=st.sampled_from([0.0, 10.0, 700.0]),
)
def test_parts_of_a_step_add_up_and_no_order_matters(tmp_path_factory, plan, ahead, host_us):
    events = Loop(ahead=ahead, host_us=host_us, kernels=5).record(plan)
    tables = []
    for seed in (None, 1):
        if seed:
            random.Random(seed).shuffle(events)  # noqa: S311
        table = server_steps(job_of(tmp_path_factory.mktemp("loop"), events)).steps
        assert (
            table["period_ns"] == table["busy_ns"] + table["gap_before_ns"] + table["gap_inside_ns"]
        ).all()
        assert (table["scheduling_ns"] + table["preparing_ns"] <= table["gap_before_ns"]).all()
        assert (table["gap_inside_ns"] >= 0).all()
        assert (table["gpu_end_ns"][:-1].to_numpy() == table["gpu_start_ns"][1:].to_numpy()).all()
        tables.append(table)
    pd.testing.assert_frame_equal(*tables)
    working = [each for each in plan if each.phase != "idle"]
    kept = working[:-1] if len(working) > 1 else working
    assert tables[0]["phase"].tolist() == [each.phase for each in kept]


REAL = {
    "kineto/sglang_decode_graph": (
        "SGLang server: 1 decode step, 10.5 ms, 32 requests, 3,062 tokens/s of this step"
    ),
    "kineto/b200_eager": (
        "vLLM server: 1 prefill step, 87.1 ms, 1 request, 10,192 prompt tokens/s of this step"
    ),
    "kineto/vllm_piecewise": "vLLM server: 1 mixed step, 156 ms, 46 requests, 8,155 prompt tokens",
    "kineto/h100_qwen": "",
}


@pytest.mark.parametrize(("recording", "said"), REAL.items())
def test_what_is_said_of_real_servers(real_traces, recording, said):
    job = open_trace(real_traces / recording, progress=False)
    assert server_steps(job).finding == said


def runs_of_a_graph(lengths, *, name="## Call CompiledFxGraph f00 ##"):
    """A request that runs compiled code, each run of two kernels with a gap, and kernels around."""
    events, now = [step(0, 0, 100_000), host(0, 50, "aten::mm")], 100.0
    for number, length in enumerate(lengths):
        events.append(host(now, 30, name, cat="user_annotation"))
        events.append(host(now + 1, 20, "## Call CompiledFxGraph inner ##", cat="user_annotation"))
        for part, (start, dur) in enumerate([(0, length / 4), (length / 2, length / 2)]):
            correlation = 10 * number + part
            events.append(call(now + 2 + part, 1, correlation))
            events.append(kernel(now + 40 + start, dur, correlation=correlation, name="k"))
        events.append(call(now + 35, 1, 10 * number + 2))  # behind the run
        events.append(kernel(now + 40 + length, 5, correlation=10 * number + 2, name="other"))
        now += length + 100
    return events


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([400, 420, 480], ", 3 × 420 µs of one compiled graph"),
        ([400, 420, 600], ", 3 × 420 µs of one compiled graph"),
        ([400, 420, 604], ""),
        ([400, 420], ""),
    ],
)
def test_a_request_that_repeats_a_compiled_graph(tmp_path, lengths, said):
    job = job_of(tmp_path, runs_of_a_graph(lengths))
    assert recording_in_words(job) == f"request{said}"


def test_runs_of_two_graphs_are_not_counted_together(tmp_path):
    events = runs_of_a_graph([400, 400, 400])
    events[2]["name"] = "## Call CompiledFxGraph f11 ##"
    assert recording_in_words(job_of(tmp_path, events)) == "request"
