"""Prompts that hold up running requests; thresholds are in tests/analyses/test_server_steps.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hta_widgets import diagnose, open_trace
from tests.diagnosis.findings.thresholds import least_price
from tests.explained.findings import explain_finding
from tests.kineto_text import write
from tests.server_loops import DECODE, Loop, Step, sglang, vllm

LONG = Step(context=1, tokens=8192, kernel_us=600.0)
PLAN = [*[DECODE] * 8, LONG, LONG, *[DECODE] * 8, LONG, *[DECODE] * 5]


def diagnosed(folder, plan=PLAN, *, ranks=(0,), name=vllm, **asked):
    for rank in ranks:
        folder.mkdir(exist_ok=True)
        events = Loop(ahead=True, kernels=20, name=name).record(plan)
        write(folder / f"rank-{rank}.json", events)
    return diagnose(open_trace(folder, progress=False), **asked)


def test_the_price_is_what_prompts_take_for_each_token(tmp_path):
    """Three of 12 ms; of 21 steps that decode in 2 ms each, the last one is left out."""
    made = diagnosed(tmp_path)
    (found,) = (each for each in made if each.cause == "prefill_stall")
    assert found.recoverable_ms == pytest.approx(3 * 12 / 20, rel=1e-3)
    assert found.bound == "at most"
    assert made.phase == "decode"
    assert found.percent == pytest.approx(100 * found.recoverable_ms * 1e6 / made.step_ns)
    assert found.sentence == (
        "Prompts hold up running requests 3 times, up to 12 ms, 6 times as long as a decode step; "
        "that delays tokens, but tokens per second stay the same: up to 1.8 ms per output token "
        "on top of each 2 ms decode step (89.9 %)."
    )
    assert not explain_finding(found, made)
    assert found.steps == (8, 9, 18)
    table = found.evidence["prompts"]
    assert table["context_tokens"].tolist() == [8192] * 3
    assert table["held_up_ms"].tolist() == pytest.approx([12.0] * 3, rel=1e-3)
    assert made.proof(found).windows["ms"].sum() == pytest.approx(36, rel=1e-3)
    assert made.joint_ms == 0  # decoding itself gets no faster


def test_without_the_last_step_nothing_changes_but_the_count(tmp_path):
    diagnosed(tmp_path)
    job = open_trace(tmp_path, progress=False, include_last_profiler_step=True)
    (found,) = (each for each in diagnose(job) if each.cause == "prefill_stall")
    assert found.recoverable_ms == pytest.approx(3 * 12 / 21, rel=1e-3)


def test_all_ranks_of_a_group_are_held_up(tmp_path):
    made = diagnosed(tmp_path, ranks=(0, 1))
    (found,) = (each for each in made if each.cause == "prefill_stall")
    assert found.ranks == (0, 1)


def test_prompts_take_more_time_than_decoding_and_still_it_is_decoding_that_waits(tmp_path):
    plan = [*[DECODE] * 4, *[replace(LONG, kernel_us=6_000.0)] * 3, *[DECODE] * 4]
    made = diagnosed(tmp_path, plan)
    assert made.phase == "decode"
    assert "phase='prefill' diagnoses the 3 prefill steps" in " ".join(made.notices)
    assert [each.cause for each in made] == ["prefill_stall"]
    assert not [*diagnose(made.job, phase="prefill")]


def test_only_the_analysed_steps_count(tmp_path):
    made = diagnosed(tmp_path, phase="decode", steps=range(8))
    assert "prefill_stall" not in {each.cause for each in made}


def test_tokens_that_are_only_verified_are_none_of_the_output(tmp_path):
    def verifies(step):
        return "step[TARGET_VERIFY bs=16 g_sq=64]" if step.generation else sglang(step)

    made = diagnosed(tmp_path, name=verifies)
    (found,) = (each for each in made if each.cause == "prefill_stall")
    assert "up to 1.8 ms per decode step on top of" in found.sentence
    assert not explain_finding(found, made)


def test_what_each_engine_can_do(tmp_path):
    for name, option in ((vllm, "--max-num-batched-tokens"), (sglang, "--chunked-prefill-size")):
        made = diagnosed(tmp_path / name.__name__, name=name)
        (found,) = (each for each in made if each.cause == "prefill_stall")
        assert option in found.advice[0].code


@pytest.mark.parametrize(
    "plan",
    [
        [LONG, LONG, LONG, *[DECODE] * 24],
        [Step(context=1, tokens=256, generation=15, kernel_us=115.0)] * 12 + [DECODE] * 12,
        [DECODE] * 24,
    ],
    ids=["prompts first", "chunks beside decoding", "only decoding"],
)
def test_healthy(tmp_path, plan):
    assert not [*diagnosed(tmp_path, plan)]


test_least_price = least_price("prefill_stall", "least_percent", diagnosed)
