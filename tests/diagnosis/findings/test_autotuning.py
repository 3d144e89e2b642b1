"""Kernels that are tried out."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import Limits
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.thresholds import Case, cases, least_price, price


def job(tried, *, waits=True, kernels=6, steps=7):
    """One rank that tries kernels in some steps."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            if number in tried:
                for each in range(kernels):
                    for _ in range(3):
                        one.launch(150, name=f"triton_mm_{each}")
                    if waits:
                        one.calls("cudaEventSynchronize", max(1, one.free - one.now))
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    return one


FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>"


def waiting_for_the_device(tried, kernels, *, repeats, in_turns=False, names=6):
    """One rank that waits for the device in each step, and runs some more in those given."""
    one = Host()

    def wait():
        one.calls("cudaDeviceSynchronize", max(1, one.free - one.now))

    for number in range(7):
        with one.step(number):
            order = [f"triton_mm_{each}" for each in range(names) for _ in range(repeats)]
            if in_turns:
                order = order[::repeats] * repeats
            for place, name in enumerate(order if number in tried else ()):
                one.launch(30, name=FILL)
                one.launch(150, name=name)
                if (place + 1) % kernels == 0:
                    wait()
            for _ in range(10):
                one.launch(200)
            wait()
    return one


@pytest.mark.parametrize("kernels", [5, 10], ids=["two waits each", "one wait each"])
@pytest.mark.parametrize("tried", [{0}, {2}], ids=["first step", "later"])
def test_trials_that_wait_for_the_device(tmp_path, tried, kernels):
    """As Triton's do_bench and Inductor's benchmark_gpu do."""
    result = diagnosed(tmp_path, waiting_for_the_device(tried, kernels, repeats=10))
    finding = found(result, "autotuning")
    assert finding.steps == tuple(tried)
    assert finding.recoverable_ms == pytest.approx(60 * 0.18 / 6, rel=0.1)
    assert "up to 6 kernels" in finding.sentence


@pytest.mark.parametrize(
    "options",
    [
        {"kernels": 1, "repeats": 10},
        {"kernels": 60, "repeats": 10},
        {"kernels": 12, "repeats": 10, "in_turns": True},
        {"kernels": 10, "repeats": 10, "names": 3},
    ],
    ids=["a wait for each launch", "a wait a step", "batches of a validation", "few kernels"],
)
def test_waits_for_the_device_without_trials(tmp_path, options):
    result = diagnosed(tmp_path, waiting_for_the_device({2}, **options))
    assert found(result, "autotuning") is None


@pytest.mark.parametrize("tried", [{0}, {2}, {1, 4}])
def test_steps_with_trials(tmp_path, tried):
    result = diagnosed(tmp_path, job(tried))
    finding = found(result, "autotuning")
    assert finding.steps == tuple(sorted(tried))
    assert finding.recoverable_ms == pytest.approx(2.7 * len(tried) / 6, rel=0.1)
    assert "up to 6 kernels, such as triton_mm_" in finding.sentence
    assert [each.cause for each in result] == ["autotuning"]


def test_kernels_of_another_shape_are_not_tried(tmp_path):
    """Nobody waits for events between them."""
    assert found(diagnosed(tmp_path, job({2}, waits=False)), "autotuning") is None


def test_few_new_kernels_are_not_tried(tmp_path):
    assert found(diagnosed(tmp_path, job({2}, kernels=3)), "autotuning") is None


def test_what_all_steps_do_is_no_trial(tmp_path):
    assert found(diagnosed(tmp_path, job(set(range(7)))), "autotuning") is None


def recording(*, waits=True, kernels=6, runs=3, inside=(), repeats=1, used=30, between=0):
    """One rank without steps: what it uses, trials, and again what it uses."""
    one = Host()
    for _ in range(used):
        one.launch(200)
    for _ in range(repeats):
        for each in range(kernels):
            for _ in range(runs):
                one.launch(150, name=f"triton_mm_{each}")
                for name in inside:
                    one.launch(150, name=name)
            if waits:
                one.calls("cudaEventSynchronize", max(1, one.free - one.now))
        for _ in range(between):
            one.launch(200)
    for _ in range(used):
        one.launch(200)
    one.synchronise()
    return one


@pytest.mark.parametrize(("runs", "repeats"), [(3, 1), (1, 3)], ids=["in a row", "in turns"])
def test_trials_in_a_recording_without_steps(tmp_path, runs, repeats):
    result = diagnosed(tmp_path, recording(runs=runs, repeats=repeats))
    finding = found(result, "autotuning")
    assert finding.steps == ()
    assert finding.recoverable_ms == pytest.approx(18 * 0.15, rel=0.1)
    assert finding.sentence.startswith(
        "The host tries up to 6 kernels, such as triton_mm_0, one after another, with waits in "
    )
    assert [each.cause for each in result] == ["autotuning"]


def test_trials_are_taken_from_idle_time_once(tmp_path):
    """LeNet was idle for 26 % of its GPU span beyond the findings, of which 47 is right."""
    one = Host()
    one.launch(200)
    one.synchronise()
    one.calls("cudaModuleLoadData", 2_000)
    for _ in range(20):
        one.launch(200)
    one.synchronise()
    for each in range(6):
        for _ in range(3):
            one.launch(150, name=f"triton_mm_{each}")
        one.calls("cudaEventSynchronize", max(1, one.free - one.now))
    for _ in range(3):
        one.now = one.free + 3_000
        for _ in range(5):
            one.launch(200)
    one.synchronise()
    made = diagnosed(tmp_path, one)
    assert {"autotuning", "warm_up"} < {each.cause for each in made}
    (said,) = (each for each in made.notices if "to gain beyond the findings" in each)
    share = 100 * 5.04e6 / made.step_ns
    assert said.startswith(f"in a further {share:.0f} % of the GPU span, the GPU is idle; ")
    assert said.endswith(": at most 5.04 ms to gain beyond the findings")


def convolutions(*, kernels=5, waits=True, operator="aten::cudnn_convolution", each=2):
    """One rank that only runs two convolutions, which try their kernels first, each once."""
    one = Host()
    for _ in range(2):
        with one.inside(operator, "cpu_op"):
            for number in range(kernels):
                for part in range(each):
                    one.queue(20, name=f"{'im2col' if part else 'conv'}_{number}")
                    one.now += 10
                if waits:
                    one.calls("cudaEventSynchronize", max(1, one.free - one.now + 30))
            one.queue(20, name="conv_1")
            one.now += 10
        for _ in range(10):
            one.now += 50
            one.launch(5)
    one.synchronise()
    return one


def test_convolutions_try_their_kernels(tmp_path):
    """As cuDNN's benchmark does: most of the recording, and one of them runs afterwards."""
    result = diagnosed(tmp_path, convolutions())
    finding, late = found(result, "autotuning"), found(result, "launch_bound")
    assert finding.recoverable_ms == pytest.approx(2 * 5 * 0.076, rel=0.02)
    assert finding.sentence.startswith(
        "The host tries up to 10 kernels in convolutions, such as conv_0, one after another, with "
    )
    assert [each.cause for each in result] == ["launch_bound", "autotuning"]
    assert "with 22 kernels" in late.sentence
    assert late.recoverable_ms < result.period_ns / 1e6 - finding.recoverable_ms


@pytest.mark.parametrize(
    "options",
    [{"waits": False}, {"kernels": 3}, {"operator": "my::op"}],
    ids=["no waits", "few kernels", "another operator"],
)
def test_convolutions_that_try_nothing(tmp_path, options):
    assert found(diagnosed(tmp_path, convolutions(**options)), "autotuning") is None


def test_trials_that_come_again_after_other_work(tmp_path):
    finding = found(diagnosed(tmp_path, recording(repeats=3, between=20)), "autotuning")
    assert finding.recoverable_ms == pytest.approx(3 * 18 * 0.15, rel=0.1)
    assert "up to 6 kernels" in finding.sentence


def test_caches_are_emptied_between_trials(tmp_path):
    finding = found(diagnosed(tmp_path, recording(inside=[FILL])), "autotuning")
    assert finding.recoverable_ms == pytest.approx(36 * 0.15, rel=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"waits": False},
        {"kernels": 3},
        {"runs": 1},
        {"inside": ["gemm"]},
        {"used": 1},
        {"runs": 1, "repeats": 3, "between": 20},
    ],
    ids=[
        "no waits",
        "few kernels",
        "run once",
        "a model that waits",
        "all of the recording",
        "run once in each step",
    ],
)
def test_what_is_no_trial_in_a_recording_without_steps(tmp_path, options):
    assert found(diagnosed(tmp_path, recording(**options)), "autotuning") is None


def test_the_limits_of_trials_can_be_set(tmp_path):
    for limits in (Limits(trial_kernels=7), Limits(trial_runs=4), Limits(trial_steps_percent=10)):
        assert found(diagnosed(tmp_path, job({2}), limits=limits), "autotuning") is None


def trying(folder, tried=(2,), kernels=6, runs=3, steps=4):
    """Trials of 150 µs each in some steps."""
    one = Host()
    for number in range(steps + 1):
        with one.step(number):
            for each in range(kernels if number in tried else 0):
                for _ in range(runs):
                    one.launch(150, name=f"triton_mm_{each}")
                one.calls("cudaEventSynchronize", max(1, one.free - one.now))
            for _ in range(4):
                one.launch(200)
            one.synchronise()
    return price(diagnosed(folder, one), "autotuning")


def often(folder, percent):
    """Kernels that are tried in this part of the steps."""
    steps, tried = {75.0: (8, 6), 77.8: (9, 7)}[percent]
    return trying(folder, range(1, 1 + tried), steps=steps) is not None


def part_of_recording(folder, percent):
    """Trials of 2.7 ms in a row, without steps, are this part of what is recorded."""
    one = recording(used=1, kernels=6)
    one.launch(2700 / percent * 100 - 2700 - 450)
    one.synchronise()
    return price(diagnosed(folder, one), "autotuning") is not None


test_what_trials_must_cost = least_price(
    "autotuning", "least_percent", lambda folder: diagnosed(folder, job({2}, steps=5))
)
test_what_trials_without_steps_must_cost = least_price(
    "autotuning", "least_percent", lambda folder: diagnosed(folder, recording())
)

test_thresholds = cases(
    Case(
        "Limits.trial_kernels",
        lambda folder, count: trying(folder, kernels=count),
        {3: None, 4: 4 * 0.456 / 4},
    ),
    Case(
        "Limits.trial_runs",
        lambda folder, count: trying(folder, runs=count),
        {1: None, 2: 6 * 0.306 / 4},
    ),
    Case("Limits.trial_steps_percent", often, {75.0: True, 77.8: False}),
    Case(
        "Limits.trial_kernels",
        lambda folder, count: price(diagnosed(folder, recording(kernels=count)), "autotuning"),
        {3: None, 4: 4 * 0.4545},
    ),
    Case(
        "Limits.trial_runs",
        lambda folder, count: price(diagnosed(folder, recording(runs=count)), "autotuning"),
        {1: None, 2: 6 * 0.305},
    ),
    Case("Limits.trial_steps_percent", part_of_recording, {74.0: True, 76.0: False}),
    Case(
        "trials.FEWEST_IN_A_ROW",
        lambda folder, count: price(
            diagnosed(folder, waiting_for_the_device({2}, count, repeats=count)), "autotuning"
        ),
        {4: None, 5: 30 * 0.18 / 6},
    ),
)
