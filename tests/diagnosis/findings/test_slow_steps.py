"""Slow first and last steps: said with their numbers, and priced in no finding."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose
from hta_widgets.panels.bands.bands import headline
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.scripts import Host, all_reduce, diagnosed
from tests.diagnosis.findings.thresholds import Case, cases

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def job(loads, *, computes=200):
    """One rank that loads data for some time (µs) in each step."""
    one = Host()
    for number, length in enumerate(loads):
        with one.step(number), one.inside("train.py(7): epoch", "python_function"):
            if length:
                one.does(LOADER, length, cat="user_annotation")
            for _ in range(10):
                one.launch(computes)
            one.synchronise()
    return one


def slow(made):
    """What is said of slow steps, by the verdict or by notices."""
    verdict = f"{made.finding[0].lower()}{made.finding[1:]}"
    return [
        each for each in (verdict, *made.notices) if each.startswith("step") and " took " in each
    ]


def test_a_slow_first_step_is_said_with_what_it_loses(tmp_path):
    made = diagnosed(tmp_path, job([19_000, 0, 0, 0, 0, 0]))
    assert not made
    assert made.left_out_steps == (0,)
    whole_ms = made.steps["period_ns"].sum() / 1e6
    (said,) = slow(made)
    assert said.startswith("step 0 took 21 ms, the others 2.01 ms on average, 19 ms more (all of")
    assert "while the host loads data, all of this time in the single-process DataLoader)" in said
    assert f"{100 * 19 / whole_ms:.1f} % of the analysed time is lost there" in said
    assert ", and causes are sought only in the others. There, nothing stands out: " in said


def test_beside_a_finding_the_heading_says_what_a_slow_first_step_loses(tmp_path):
    made = diagnosed(tmp_path, job([60_000, 1_500, 1_500, 1_500, 1_500]))
    assert [each.cause for each in made] == ["input_starvation"]
    (said,) = slow(made)
    assert said.startswith("step 0 took 62 ms, the others 3.51 ms on average, 58.5 ms more (all of")
    assert said in headline(made)


def test_no_part_of_what_a_slow_step_takes_more_is_more_than_all_of_it(tmp_path):
    """It said "19.4 ms more (25 ms of it while the host loads data"; the others pause longer."""
    one = Host()
    for number in range(5):
        with one.step(number):
            if number == 0:
                one.does(LOADER, 25_000, cat="user_annotation")
            else:
                one.now += 6_000
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    (said,) = slow(diagnosed(tmp_path, one))
    assert "19 ms more (all of it while the host loads data, " in said


def test_of_two_steps_none_is_unusual(tmp_path):
    """A T4: steps of 54 and 35 ms, of which each loaded data, and one was left out."""
    made = diagnosed(tmp_path, job([19_000, 6_000, 0]))
    assert made.left_out_steps == ()
    assert not slow(made)
    (finding,) = made
    assert finding.cause == "input_starvation"
    assert finding.recoverable_ms == pytest.approx((19 + 6) / 2, rel=0.02)


def test_the_rank_that_holds_the_others_up_is_named(tmp_path):
    hosts = [job([19_000 if rank == 1 else 0, 0, 0, 0, 0]) for rank in range(2)]
    said = " ".join(slow(diagnosed(tmp_path, *hosts)))
    assert "while the host loads data on rank 1" in said


def test_a_first_step_behind_which_the_file_is_cut_is_not_slow(tmp_path):
    one = job([0, 0])
    for number in range(2, 7):
        with one.step(number):
            one.does("aten::add", 100)
    made = diagnosed(tmp_path, one)
    assert not slow(made)
    assert made.left_out_steps == ()


def test_steps_alike_are_silent(tmp_path):
    assert not slow(diagnosed(tmp_path, job([0] * 6)))


def test_a_slow_last_step_is_said(tmp_path):
    """Although it is not analysed, with what it loses."""
    made = diagnosed(tmp_path, job([0, 0, 0, 0, 9_000]))
    assert not made
    (said,) = slow(made)
    assert said.startswith(
        "step 4, the last, is left out; it took 11 ms from the end of the GPU work before it (for "
        "9 ms of that, the GPU is idle while the host loads data), 9 ms more than the others on "
        "average: "
        f"{100 * 9 / (4 * 2.01 + 11):.1f} % of the time of all recorded steps is lost there (open"
    )
    assert said not in made.unexplained
    every = diagnose(open_trace(tmp_path, progress=False, include_last_profiler_step=True))
    assert not slow(every)
    assert [(each.cause, each.steps) for each in every] == [("input_starvation", (4,))]


def test_a_last_step_that_is_cut_is_silent(tmp_path):
    one = job([0, 0, 0, 0])
    with one.step(4):
        one.launch(100)
    assert not slow(diagnosed(tmp_path, one))


def test_a_slow_last_step_that_is_cut_took_at_least_what_is_recorded(tmp_path):
    """Launches without a kernel at the end: the recording ended before they ran."""
    one = job([0, 0, 0, 0])
    with one.step(4):
        one.does(LOADER, 9_000, cat="user_annotation")
        one.launch(200)
        one.calls("cudaLaunchKernel", 5)
    (said,) = slow(diagnosed(tmp_path, one))
    assert said.startswith("step 4, the last, is left out; it took at least 9.2")
    assert ", at least 7.2" in said


@pytest.mark.parametrize("cut", [False, True])
def test_the_headline_says_that_one_of_few_steps_is_left_out(tmp_path, cut):
    """A T4: of three steps, the last one loaded data for 42 of its 50 ms, and did not count."""
    one = job([0, 0, 9_000])
    one.events[-1]["dur"] += 100
    if cut:
        one.calls("cudaLaunchKernel", 5)
    made = diagnosed(tmp_path, one)
    (said,) = slow(made)
    assert (said in made.unexplained) == (said in headline(made)) == (not cut)


def test_beside_a_single_step_the_last_is_compared_with_it(tmp_path):
    (said,) = slow(diagnosed(tmp_path, job([0, 9_000])))
    assert said.startswith("step 1, the last, is left out; it took 11 ms from the end of")
    assert ", 9 ms more than step 0: " in said


@pytest.mark.parametrize(("percent", "is_said"), [(28, False), (33, True)])
def test_a_last_step_is_slow_from_the_same_length_on_as_a_first(tmp_path, percent, is_said):
    made = diagnosed(tmp_path, job([0, 0, 0, 0, 2_010 * percent / 100]))
    assert bool(slow(made)) == is_said


def says_loading(folder, part):
    """Whether a part of 10 ms is said to be what a first step loses: it copies and pauses, too."""
    one = Host()
    for number in range(6):
        with one.step(number):
            if number == 0:
                one.does(LOADER, 10_000 * part, cat="user_annotation")
                one.queue(5_000 * (1 - part), cat="gpu_memcpy", name="Memcpy DtoD")
                one.now += 10_000 * (1 - part)
            for _ in range(20):
                one.launch(200)
            one.synchronise()
    return "while the host loads data" in slow(diagnosed(folder, one))[0]


def says_how_steps_differ(folder, ratio):
    """Every other step computes as many times as long."""
    one = Host()
    for number in range(7):
        with one.step(number):
            one.launch(100_000 * (ratio if number % 2 else 1))
            one.synchronise()
    return bool(diagnosed(folder, one).varied)


test_thresholds = cases(
    Case("report.UNLIKE_STEPS", says_how_steps_differ, {1.29: False, 1.31: True}),
    Case("notices.MOST_OF_IT", says_loading, {0.47: False, 0.54: True}),
)


def begin(apart, *, before=False):
    """Two ranks whose second one begins the first step later, and meets the other in each."""
    hosts = Host(), Host()
    if before:
        hosts[1].does("aten::cat", 100)
    hosts[1].now = hosts[1].free = hosts[1].now + apart
    for number in range(4):
        with hosts[0].step(number), hosts[1].step(number):
            for _ in range(5):
                for each in hosts:
                    each.launch(200)
                all_reduce(hosts)
            for each in hosts:
                each.synchronise()
    return hosts


def late(made):
    return [each for each in made.notices if "start step" in each]


def test_a_rank_that_begins_late_is_said(tmp_path):
    made = diagnosed(tmp_path, *begin(1_000))
    (said,) = late(made)
    assert said in made.unexplained
    assert said == (
        "ranks start step 0, the first one recorded, up to 1 ms apart, rank 1 last: the others "
        "wait for it in communication, and what it did before is not recorded: record the step "
        "before, too"
    )


@pytest.mark.parametrize("options", [{"apart": 100}, {"apart": 1_000, "before": True}])
def test_a_rank_that_begins_a_bit_late_or_after_what_is_recorded_is_silent(tmp_path, options):
    assert not late(diagnosed(tmp_path, *begin(**options)))
