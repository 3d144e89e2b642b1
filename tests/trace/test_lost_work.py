"""Kernels that were launched and are not in the trace."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import diagnose
from hta_widgets.trace.model.health.lost_work import Stretch
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import health_of
from tests.kineto_text import call, kernel, step, write

US = 1000


def launched(number, at=None, **options):
    """A launch every 100 µs, and its kernel of 50 µs."""
    at = 100 * number if at is None else at
    return [call(at, 5, number + 1, **options), kernel(at + 10, 50, correlation=number + 1)]


def without_work_of(events, *lost):
    ids = {number + 1 for number in lost}
    return [
        each for each in events if each["cat"] != "kernel" or each["args"]["correlation"] not in ids
    ]


def health_of_events(folder, events):
    job = open_trace(write(folder / "rank-0.json", events), progress=False)
    return job.reduce(health_of, [0])[0], job.notices


def lost_in(folder, events):
    return health_of_events(folder, events)[0].lost


def many(count=40):
    return [event for number in range(count) for event in launched(number)]


def test_a_sound_recording_lacks_nothing(tmp_path):
    health, notices = health_of_events(tmp_path, many())
    assert health.is_sound
    assert notices == ()
    assert (health.lost.launches, health.lost.lost, health.lost.steps) == (40, 0, ())


def test_lost_launches_are_counted_by_stretch(tmp_path):
    health, notices = health_of_events(tmp_path, without_work_of(many(), 3, 4, 5, 30))
    assert (health.lost.launches, health.lost.lost, health.lost.at_end) == (40, 4, 0)
    assert health.lost.stretches == (
        Stretch(300 * US, 500 * US, 3),
        Stretch(3000 * US, 3000 * US, 1),
    )
    # from the first lost launch to the next work: 300 to 610 µs, and 3,000 to 3,110 µs
    assert health.lost.hole_ns == (310 + 110) * US
    assert notices[0].startswith("4 of 40 kernel launches have no kernel in the trace")


def test_each_lost_launch_is_in_one_notice(tmp_path):
    events = [
        event
        for number in range(80)
        for event in launched(number, name="cudaGraphLaunch" if number % 2 else "cudaLaunchKernel")
    ]
    health, notices = health_of_events(tmp_path, without_work_of(events, 2, 4, *range(11, 31, 2)))
    assert (health.lost.lost, health.lost.lost_kernels, health.lost.lost_replays) == (12, 2, 10)
    assert [each.split(" have ")[0] for each in notices] == [
        "2 of 40 kernel launches",
        "10 of 40 graph launches",
    ]


def test_work_that_was_never_recorded_is_not_lost(tmp_path):
    """Of a recording that ends while the host runs ahead, the last launches have not run."""
    lost = lost_in(tmp_path, without_work_of(many(), 38, 39))
    assert (lost.lost, lost.at_end, lost.stretches) == (0, 2, ())


def test_a_recording_that_ends_long_before_the_gpu_is_done(tmp_path):
    cut = without_work_of(many(), *range(30, 40))
    health, notices = health_of_events(tmp_path, cut)
    assert (health.lost.lost, health.lost.at_end, health.is_sound) == (0, 10, False)
    said = "the last 10 of 40 launches have no GPU work in the trace: the recording ended before"
    assert [*notices] == [f"{said} the GPU was done"]
    job = open_trace(tmp_path / "rank-0.json", progress=False)
    assert any("Wait for the GPU before the" in each.how for each in diagnose(job).not_recorded)


def test_without_any_gpu_work_all_launches_have_lost_theirs(tmp_path):
    replay = call(4000, 5, 99, name="cudaGraphLaunch")
    health, notices = health_of_events(tmp_path, [*without_work_of(many(), *range(40)), replay])
    lost = health.lost
    assert (lost.is_all, lost.launches, lost.lost_kernels, lost.replays) == (True, 40, 40, 0)
    assert str(notices[0]).startswith("none of 40 launches has GPU work in the trace: ")
    assert not health.is_sound


def test_launches_that_are_all_captured_lost_nothing(tmp_path):
    begin = call(0, 1, 901, name="cudaStreamBeginCapture")
    launches = [launched(number)[0] for number in range(1, 40)]
    assert lost_in(tmp_path, launches).is_all
    assert not lost_in(tmp_path, [begin, *launches]).is_all


def test_captured_launches_have_no_work(tmp_path):
    def captured(*calls):
        return [*without_work_of(many(), 3, 4, 5), *calls]

    begin = call(290, 1, 901, name="cudaStreamBeginCapture")
    end = call(590, 1, 902, name="cudaStreamEndCapture_v10000")
    elsewhere = [each | {"tid": 7} for each in (begin, end)]
    assert lost_in(tmp_path, captured(begin, end)).lost == 0
    assert lost_in(tmp_path, captured(begin | {"ts": 390}, end)).lost == 1
    assert lost_in(tmp_path, captured(*elsewhere)).lost == 3


def test_calls_that_may_give_no_work_are_not_lost(tmp_path):
    names = ("cudaMemsetAsync", "cudaMemcpyAsync", "cudaGraphLaunch", "cudaLaunchHostFunc")
    others = [call(55 + number, 1, 900 + number, name=name) for number, name in enumerate(names)]
    assert lost_in(tmp_path, [*many(), *others]).lost == 0


@pytest.mark.parametrize("kernel_has", ["runtime", "driver"])
def test_a_driver_call_inside_a_runtime_call_is_the_same_launch(tmp_path, kernel_has):
    inside = call(306, 1, 901, name="cuLaunchKernel", cat="cuda_driver")
    number = 4 if kernel_has == "runtime" else 901
    around = [call(305, 5, 4), inside, kernel(320, 50, correlation=number)]
    others = [each for each in many() if each["args"].get("correlation") != 4]
    lost = lost_in(tmp_path, [*others, *around])
    assert (lost.launches, lost.lost) == (40, 0)


def test_work_without_ids_is_not_lost(tmp_path):
    events = [
        each | {"args": each["args"] | {"correlation": 0}} if each["cat"] == "kernel" else each
        for each in many(20)
    ]
    assert lost_in(tmp_path, [*events, *launched(30)]).lost == 0


def steps_touched(folder, lost):
    """Four steps of 1 ms and a last one, ten launches in each, the last one of which is late."""
    events = [event for number in range(50) for event in launched(number)]
    marks = [step(number, 1000 * number, 1000) for number in range(5)]
    return lost_in(folder, [*without_work_of(events, *lost), *marks]).steps


def test_steps_with_lost_work_are_touched(tmp_path):
    assert steps_touched(tmp_path, []) == ()
    assert steps_touched(tmp_path, [12, 13]) == (1,)
    assert steps_touched(tmp_path, [3, 24]) == (0, 2)


def test_a_step_that_would_end_with_lost_work_touches_the_next(tmp_path):
    assert steps_touched(tmp_path, [19]) == (1, 2)


def test_steps_after_the_recording_was_cut_are_touched(tmp_path):
    assert steps_touched(tmp_path, range(27, 50)) == (2, 3, 4)
