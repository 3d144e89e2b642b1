"""Loops of inference servers that leave the GPU idle between two steps."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.analyses.server_steps import server_steps
from tests.diagnosis.findings.thresholds import Case, cases, least_price
from tests.kineto_text import call, host, kernel, write
from tests.server_loops import (
    DECODE,
    LAUNCH_US,
    PREFILL,
    START_US,
    Loop,
    Step,
    sglang,
    vllm,
)

EIGHT = [DECODE] * 8
REQUESTS = "zmq/sugar/socket.py(120): recv_multipart"


def diagnosed(folder, loop, plan=EIGHT, extra=()):
    events = [*loop.record(plan), *extra]
    return diagnose(open_trace(write(folder / "rank-0.json", events), progress=False))


def gap(made):
    return next((each for each in made if each.cause == "step_gap"), None)


def test_the_gap_and_its_parts(tmp_path):
    made = diagnosed(tmp_path, Loop(host_us=800))
    found = gap(made)
    assert found.evidence["scheduling_ms"] == pytest.approx(0.8)
    assert found.evidence["preparing_ms"] == pytest.approx(0.04)
    assert found.sentence.startswith(
        "Between decode steps, the GPU waits 840 µs of 2.87 ms for the host: 800 µs before the "
        "step begins, 40 µs to prepare it"
    )
    assert found.recoverable_ms == pytest.approx(0.84, rel=1e-3)  # the first has no gap before it
    assert [each.cause for each in made] == ["step_gap"]
    table = server_steps(open_trace(tmp_path / "rank-0.json", progress=False)).steps
    late_ns = (table["scheduling_ns"] + table["preparing_ns"]).iloc[1:]
    assert found.evidence["steps"]["idle_ms"].sum() == pytest.approx(late_ns.sum() / 1e6, rel=0.02)


def test_a_copy_of_the_tokens_is_none_of_the_gap(tmp_path):
    """It ends the step, after its last kernel that computes."""
    made = diagnosed(tmp_path, Loop(host_us=800, copy_us=30))
    assert gap(made).sentence.startswith(
        "Between decode steps, the GPU waits 842 µs of 2.9 ms for the host: 802 µs before the "
        "step begins, 40 µs to prepare it"
    )
    table = server_steps(open_trace(tmp_path / "rank-0.json", progress=False)).steps.iloc[1:]
    assert set(table["busy_ns"]) == {2_030_000}
    parts = table[["busy_ns", "gap_before_ns", "gap_inside_ns"]].sum(axis="columns")
    assert parts.tolist() == table["period_ns"].tolist()


@pytest.mark.parametrize("name", [vllm, sglang])
def test_what_the_engine_can_do(tmp_path, name):
    found = gap(diagnosed(tmp_path, Loop(host_us=800, name=name)))
    engine = {vllm: "Let vLLM schedule", sglang: "Let SGLang overlap"}[name]
    assert found.advice[0].do.startswith(engine)


def test_what_runs_in_the_gap_is_named(tmp_path):
    loop = Loop(host_us=800)
    starts = [each["ts"] for each in loop.record(EIGHT) if each["name"] == vllm(DECODE)]
    frame = "vllm/v1/engine/detokenizer.py(95): update"
    extra = [host(ts - 790, 780, frame, cat="python_function") for ts in starts[1:]]
    found = gap(diagnosed(tmp_path, loop, extra=extra))
    assert "91.2 % of this time inside …/v1/engine/detokenizer.py(95): update" in found.sentence


@pytest.mark.parametrize(
    ("loop", "plan"),
    [
        (Loop(host_us=800, ahead=True), EIGHT),
        (Loop(host_us=20), EIGHT),
        # two steps are no loop
        (Loop(host_us=800), [DECODE] * 3),
    ],
    ids=["one step ahead", "fast host", "two steps"],
)
def test_silent(tmp_path, loop, plan):
    assert gap(diagnosed(tmp_path, loop, plan)) is None


def test_a_training_that_is_called_like_a_server_is_none(tmp_path):
    extra = [host(1, 5, "Optimizer.step#AdamW.step", cat="user_annotation")]
    assert gap(diagnosed(tmp_path, Loop(host_us=800), extra=extra)) is None


def drained(folder, *, launching_us=20, pausing_us=0):
    """A call in the span of each step drains the GPU; its graph pauses after two kernels."""
    events = []
    for number in range(8):
        at = (3_000.0 + pausing_us) * number
        begins = [at + 2_425 + 100 * each + pausing_us * (each >= 2) for each in range(20)]
        events += [
            host(at, 2_900, sglang(DECODE), cat="user_annotation"),
            call(at + 10, 1_420, 100 + number, name="hipMemcpyWithStream"),
            call(at + 2_400, launching_us, number + 1, name="hipGraphLaunch"),
            *(
                kernel(begin, 100, correlation=number + 1, name=f"k{each}")
                for each, begin in enumerate(begins)
            ),
        ]
    return diagnose(open_trace(write(folder / "rank-0.json", events), progress=False))


def test_a_call_that_drains_the_gpu_in_the_span_is_a_sync_stall(tmp_path):
    """As the copy with which SGLang fills the inputs of its graphs: 1 ms is lost after it."""
    made = drained(tmp_path)
    assert not made.steps["gap_step_ns"].any()
    assert "step_gap" not in {each.cause for each in made}
    (found,) = (each for each in made if each.cause == "blocking_sync")
    assert found.recoverable_ms == pytest.approx(1, rel=0.15)  # the first step is late, too


@pytest.mark.parametrize(
    ("launching_us", "pausing_us", "is_late"),
    [(500, 200, True), (400, 200, False), (500, 99, False), (500, 101, True)],
    ids=["still launches", "has launched", "as from kernel to kernel", "a little longer"],
)
def test_what_a_graph_waits_for_while_its_launch_hands_it_over(
    tmp_path, launching_us, pausing_us, is_late
):
    """A host that runs ahead hands over all of it in time: 274 of 672 µs of a step of SGLang."""
    made = drained(tmp_path, launching_us=launching_us, pausing_us=pausing_us)
    late_ns = made.steps[["gap_op_ns", "gap_sync_ns"]].sum(axis="columns")
    before = drained(tmp_path, launching_us=launching_us)
    late_ns -= before.steps[["gap_op_ns", "gap_sync_ns"]].sum(axis="columns")
    assert set(late_ns) == {pausing_us * 1_000 * is_late}
    price_ms, before_ms = (
        sum(each.recoverable_ms for each in found if each.cause == "blocking_sync")
        for found in (made, before)
    )
    assert price_ms - before_ms == pytest.approx(pausing_us / 1_000 * is_late, abs=2e-3)


@pytest.mark.parametrize("is_decoding", [True, False])
def test_what_is_copied_in_a_decoding_step_is_no_input(tmp_path, is_decoding):
    """Masks of a grammar are filled on the host and copied between the graph and sampling."""
    step, events, free = DECODE if is_decoding else PREFILL, [], 0.0
    fills = "vllm/v1/structured_output/backend_xgrammar.py(170): fill_bitmask"
    for number in range(0, 40, 4):
        at = max(free, 1_000.0)
        events += [
            call(at + 10, 20, number + 1, name="cudaGraphLaunch"),
            kernel(at + 35, 3_000, correlation=number + 1),
            call(at + 40, 3_000, number + 2, name="cudaEventSynchronize"),
            host(at + 3_041, 2_000, fills, cat="python_function"),
            call(at + 5_042, 10, number + 3, name="cudaMemcpyAsync"),
            kernel(
                at + 5_055,
                45,
                correlation=number + 3,
                name="Memcpy HtoD (Pageable -> Device)",
                cat="gpu_memcpy",
            ),
            call(at + 5_060, 10, number + 4),
            kernel(at + 5_105, 20, correlation=number + 4, name="sample"),
            host(at, 5_100, vllm(step), cat="user_annotation"),
        ]
        free = at + 5_130
    made = diagnose(open_trace(write(tmp_path / "rank-0.json", events), progress=False))
    (finding,) = made
    assert finding.cause == ("host_pause" if is_decoding else "preprocessing")
    assert "fill_bitmask" in finding.sentence
    assert finding.recoverable_ms == pytest.approx(2, rel=0.05)


def idle_server(folder, *, gap_us=20_000, waiting=1.0, host_us=100, brings=None):
    """A loop that waits for a request before its fifth step, or that nothing is recorded of."""
    plan = EIGHT if brings is None else [*EIGHT[:4], brings, *EIGHT[4:]]
    events = Loop(host_us=host_us).record(plan)
    (fifth,) = sorted(each["ts"] for each in events if each["name"].startswith("execute_"))[4:5]
    for each in events:
        if each["ts"] >= fifth:
            each["ts"] += gap_us
    begin = fifth - host_us
    if brings is None:
        lasts = waiting * (gap_us + host_us + PREPARING_US)
        events.append(host(begin, lasts, REQUESTS, cat="python_function"))
    elif waiting < 1:
        lasts = (1 - waiting) * (gap_us + host_us + PREPARING_US)
        events.append(host(begin, lasts, "aten::copy_"))
    return diagnose(open_trace(write(folder / "rank-0.json", events), progress=False))


PREPARING_US = 40.0
"""From the span of a step to its first launch."""


def blamed(made):
    return [each.cause for each in made if each.cause in {"step_gap", "host_pause"}]


def left_out(made):
    (said,) = [each for each in made.notices if each.startswith("before step 4,")] or [""]
    return said


def test_a_server_without_requests_costs_nothing(tmp_path):
    made = idle_server(tmp_path, host_us=50)
    assert not len(made)
    assert 4 not in made.steps["step"].tolist()
    assert left_out(made) == (
        "before step 4, the server waits up to 20.1 ms for requests; it is not diagnosed, and not "
        "in tokens per second"
    )
    steps = server_steps(open_trace(tmp_path / "rank-0.json", progress=False))
    assert steps.steps["no_requests_ns"].tolist() == [0, 0, 0, 0, 20_090_000, 0, 0]
    assert steps.phases["period_ns"].tolist() == [2_115_000]


def test_one_of_which_nothing_is_recorded_may_have_had_none(tmp_path):
    made = idle_server(tmp_path, host_us=50, brings=PREFILL)
    assert not blamed(made)
    assert "nothing is recorded of the server for up to 20.1 ms: it may have had no" in left_out(
        made
    )


def test_while_requests_run_nothing_recorded_is_a_pause(tmp_path):
    """It has requests then, and the next step brings no other ones."""
    made = idle_server(tmp_path, brings=DECODE)
    assert blamed(made)
    assert not left_out(made)


def test_one_that_works_as_long_does(tmp_path):
    made = idle_server(tmp_path, waiting=0.1)
    assert blamed(made)
    assert not left_out(made)


def test_iterations_without_a_request_tell_that_there_was_none(tmp_path):
    """As SGLang's, also without Python frames: their time was a pause without a cause."""
    plan = [*EIGHT[:4], *[Step()] * 30, *EIGHT[4:]]
    made = diagnosed(tmp_path, Loop(host_us=50, name=sglang), plan)
    assert not len(made)
    assert left_out(made).startswith("before step 4, the server waits up to 17.9 ms for requests")
    slow = diagnosed(tmp_path, Loop(host_us=800, name=sglang), [*EIGHT, *[Step()] * 9, *EIGHT])
    assert gap(slow).recoverable_ms == pytest.approx(0.84, rel=0.01)


def prompts_only(folder, *, gap_us, frame=""):
    """A server that computes embeddings: no request runs on from one step to the next."""
    prompts = Step(context=4, tokens=512, kernel_us=1_000.0)
    loop = Loop(host_us=gap_us)
    events = loop.record([prompts] * 12)
    starts = sorted(each["ts"] for each in events if each["name"].startswith("execute_"))[1:]
    if frame:
        events += [host(at - gap_us, gap_us, frame, cat="python_function") for at in starts]
    return diagnose(open_trace(write(folder / "rank-0.json", events), progress=False))


def test_a_server_of_prompts_may_have_no_requests_between_any_two(tmp_path):
    waits = prompts_only(tmp_path, gap_us=3_000, frame=REQUESTS)
    assert not len(waits)
    assert any("the server waits up to 3.04 ms for requests" in each for each in waits.notices)
    unknown = prompts_only(tmp_path, gap_us=3_000)
    assert not len(unknown)
    assert any("it may have had no requests" in each for each in unknown.notices)
    pools = prompts_only(tmp_path, gap_us=3_000, frame="output_processor.py(70): pool")
    assert "inside output_processor.py(70): pool" in gap(pools).sentence


def test_the_batch_begins_before_the_span(tmp_path):
    """A draft model launches its kernels before the span of the step that verifies its tokens."""
    events = Loop(host_us=800, name=sglang).record(EIGHT)
    starts = [each["ts"] for each in events if each["name"] == sglang(DECODE)]
    for number, at in enumerate(starts, 1_000):
        events += [
            host(at - 60, 200, "scheduler.run_batch", cat="user_annotation"),
            call(at - 50, 5, number),
            kernel(at - 40, 30, correlation=number, name="draft"),
        ]
    made = diagnose(open_trace(write(tmp_path / "rank-0.json", events), progress=False))
    assert [each.cause for each in made] == ["step_gap"]
    assert not made.steps["gap_sync_ns"].any()


def test_one_long_gap_is_none_of_the_loop(tmp_path):
    assert gap(idle_server(tmp_path, waiting=0, host_us=1)) is None


test_costs_its_limit = least_price(
    "step_gap", "least_percent", lambda folder: diagnosed(folder, Loop(host_us=800))
)


test_thresholds = cases(
    Case(
        "step_gap.FEWEST_LIKE",
        lambda folder, like: (
            gap(diagnosed(folder, Loop(host_us=800), [DECODE] * (like + 2))) is not None
        ),
        {2: False, 3: True},
    ),
    Case(
        "device_steps.FEWEST_SERVER_STEPS",
        lambda folder, steps: _is_between(folder, [DECODE] * steps),
        {2: False, 3: True},
    ),
    Case(
        "served_steps.WAITS_FOR_REQUESTS",
        lambda folder, part: bool(left_out(idle_server(folder, waiting=part))),
        {0.79: False, 0.81: True},
    ),
    Case(
        "served_steps.NO_REQUESTS",
        lambda folder, times: bool(left_out(idle_server(folder, gap_us=140 * (times - 1)))),
        {9.7: False, 10.3: True},
    ),
    Case(
        "device_steps.HANDED_OVER_NS",
        lambda folder, ns: bool(
            drained(folder, launching_us=500, pausing_us=ns / 1_000)
            .steps["gap_op_ns"]
            .iloc[1:]
            .any()
        ),
        {99_000: False, 101_000: True},
    ),
    Case(
        "served_steps.NOTHING_RUNS",
        lambda folder, part: len(prompts_only(folder, gap_us=_gap_of(part)).steps) == 1,
        {0.047: False, 0.053: True},
    ),
)


def _gap_of(part):
    """From the wait for a step to the span of the next, for this part of a step to be idle."""
    return part / (1 - part) * (20_000 + LAUNCH_US + START_US) - PREPARING_US


def _is_between(folder, plan):
    made = diagnosed(folder, Loop(host_us=800), plan)
    return bool(made.steps["gap_step_ns"].any())
