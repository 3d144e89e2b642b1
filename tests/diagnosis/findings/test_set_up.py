"""What a program does before its first GPU work, and a step after its last."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.scripts import Host, diagnosed
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import kernel
from tests.trace.test_nsys_samples import diagnosed as diagnosed_samples

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def started(folder, length, *, name="cudaMalloc", span=1_000, step=False, then=0):
    """A diagnosis of a program whose first call takes so long (µs), and its GPU work another time.

    Nothing is recorded for some time in between.
    """
    one = Host()
    if name.startswith("cuda"):
        one.calls(name, length)
    else:
        one.does(name, length, cat="user_annotation")
    one.now += then
    begin = one.now
    for _ in range(20):
        one.launch(span / 20)
    one.synchronise()
    if step:
        one.now, after = begin, one.now
        with one.step(1):
            one.now = after
    return diagnosed(folder, one)


def notices(*args, **kwargs):
    """What such a diagnosis says of the time before the first GPU work."""
    made = started(*args, **kwargs)
    said = [each for each in made.notices if each.startswith("the first GPU work starts")]
    assert [each for each in made.unexplained if each in said] == said
    return said


@pytest.mark.parametrize(
    ("name", "length", "then", "said"),
    [
        ("cudaMalloc", 309_000, 0, ", all of it inside cudaMalloc, as at the first use of a GPU"),
        ("cudaMalloc", 100_000, 209_000, ", with nothing recorded in 67.6 % of it"),
        (LOADER, 200_000, 109_000, ", 64.7 % of it in the DataLoader with workers"),
    ],
)
def test_what_a_program_does_first_is_said(tmp_path, name, length, then, said):
    """A GPU span of 67 ms stood for a recording of 8.67 s, 5.1 s of which loaded a batch."""
    made = started(tmp_path, length, name=name, then=then)
    notice = f"the first GPU work starts 309 ms after the first recorded call{said}; "
    first = "but the first to shorten if every run has it"
    assert f"{notice}that time is not counted, {first}" in made.unexplained
    assert made.bound_by.startswith("after 309 ms in which the GPU has no work, bound by ")


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("Memcpy HtoD (Unified)", ", 95.1 % of it inside cudaMallocManaged"),
        ("Memset (Device)", ";"),
    ],
)
def test_a_program_whose_first_work_has_no_launch_did_not_do_nothing(tmp_path, first, said):
    """177 of 777 ms were in cudaMallocManaged, 594 in pthread_join: "nothing recorded in all"."""
    one = Host()
    one.calls("cudaMallocManaged", 309_000)
    one.now += 16_000
    one.events.append(kernel(one.now, 10, cat="gpu_memcpy", name=first, stream=0))
    one.now += 100
    for _ in range(20):
        one.launch(50)
    one.synchronise()
    (notice,) = (each for each in diagnosed(tmp_path, one).notices if "first GPU work" in each)
    assert notice.startswith(
        f"the first GPU work starts 325 ms after the first recorded call{said}"
    )


def test_the_head_line_is_silent_on_what_is_shorter_than_the_gpu_span(tmp_path):
    made = started(tmp_path, 309_000, span=400_000)
    (said,) = made.unexplained
    assert said.endswith("; that time is not counted")
    assert made.bound_by.startswith("bound by ")


def test_a_call_that_waits_for_what_was_launched_before_sets_up_nothing(tmp_path):
    """For 101 ms in a server whose GPU was busy when the recording began."""
    assert not notices(tmp_path, 309_000, name="cudaStreamSynchronize")


def test_marked_steps_begin_later(tmp_path):
    assert not notices(tmp_path, 309_000, step=True)


def one_step(folder, after_us, *, span=10_000, recorded=False):
    """A diagnosis of a step whose mark ends so long after its GPU work, and its call that waits."""
    one = Host()
    with one.step(1):
        for _ in range(20):
            one.launch(span / 20)
        one.synchronise()
        if recorded:
            one.calls("aten::zeros", after_us)
        else:
            one.now += after_us
    return diagnosed(folder, one)


def test_a_step_goes_on_after_all_that_is_recorded(tmp_path):
    """A mark of 13.3 s was a step of 1.36 ms, 96.5 % of which the host stalled."""
    made = one_step(tmp_path, 13_300_000)
    assert made.unrecorded_ns == pytest.approx(13.3e9, rel=0.001)
    said = " ".join(repr(made).split())
    assert "step 1 of 10 ms (and 13.3 s with nothing recorded)" in said
    assert " of the critical path), as far as the step is recorded." in said
    assert any(each.startswith("step 1 goes on for 13.3 s after") for each in made.notices)


def test_what_is_recorded_at_the_end_of_a_step_is_not_missing(tmp_path):
    assert not one_step(tmp_path, 13_300_000, recorded=True).unrecorded_ns


def after_gpu_work(folder, part, *, steps=1):
    """What is said of steps of 10 ms that save images on the host for a part of it."""
    one = Host()
    for number in range(steps + (steps > 1)):  # of several, the last one is left out
        with one.step(number):
            for _ in range(20):
                one.launch(500)
            one.synchronise()
            with one.inside("save.py(8): save", cat="python_function"):
                one.does("aten::max", 10_000 * part)
    made = diagnosed(folder, one)
    said = [each for each in made.notices if "after its last GPU work" in each]
    assert [each for each in made.unexplained if each in said] == said
    return said


def test_what_a_request_does_after_its_gpu_work_is_said(tmp_path):
    """Drawing boxes took 46 of 1,094 ms, which no step and no word had."""
    (notice,) = after_gpu_work(tmp_path, 0.2)
    said = "step 0 goes on for 2 ms after its last GPU work, all of it inside save.py(8): save"
    assert notice == f"{said}; that time is not counted"


def test_what_a_step_of_many_does_is_idle_time_of_the_next_one(tmp_path):
    assert not after_gpu_work(tmp_path, 0.2, steps=2)


def names_what_runs_before(folder, part):
    """A program that is in a function of its own for a part of 100 ms before its first call."""
    stacks = [(at / 2, ("own",) if at < 200 * part else ()) for at in range(200)]
    said = diagnosed_samples(folder, *stacks, first_ms=100).notices
    return any(
        "before the first recorded call" in each and "inside update" in each for each in said
    )


test_thresholds = cases(
    Case("notices.LEAST_NAMED", names_what_runs_before, {0.19: False, 0.21: True}),
    Case(
        "notices.AFTER_GPU_WORK",
        lambda folder, part: bool(after_gpu_work(folder, part)),
        {0.0295: False, 0.0305: True},
    ),
    Case(
        "notices.SET_UP_NS",
        lambda folder, ns: bool(notices(folder, ns / 1000)),
        {9_900_000: False, 10_100_000: True},
    ),
    Case(
        "notices.SET_UP_SHARE",
        lambda folder, share: one_step(folder, share * 1e6, span=1_000_000).unrecorded_ns > 0,
        {0.495: False, 0.505: True},
    ),
    Case(
        "notices.BEFORE_GPU_WORK",
        lambda folder, part: bool(notices(folder, part / (1 - part) * 1e6, span=1_000_000)),
        {0.148: False, 0.152: True},
    ),
)
