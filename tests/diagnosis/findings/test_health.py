"""Recordings that lack what happened: steps are left out, or nothing is measured."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose, replay
from hta_widgets.diagnosis.job.health import CLOCKS_APART, JobHealth
from hta_widgets.quantities import percent
from hta_widgets.trace.model.health.wrong_times import WrongTimes
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import call, host, kernel, write
from tests.trace import test_lost_operators
from tests.trace.test_lost_work import launched, lost_in, many, without_work_of
from tests.trace.test_taken_out import filtered
from tests.trace.test_wrong_events import loaded, sound
from tests.trace.test_wrong_times import launches, stands_still, synchronise, times_of


def job(steps=6, launches=100):
    """A host that loads data in each step, and keeps ahead of its GPU otherwise."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            one.does("train_dataloader_next", 1000)
            for _ in range(launches):
                one.launch(100)
            one.synchronise()
    return one


def without_work(one, lost):
    """The same without the GPU work of which this is true, of step and start inside it (µs)."""
    begins = sorted(each["ts"] for each in one.events if each["name"].startswith("ProfilerStep"))

    def is_kept(event):
        if event["cat"] != "kernel":
            return True
        number = max(place for place, begin in enumerate(begins) if begin <= event["ts"])
        return not lost(number, event["ts"] - begins[number])

    one.events = [each for each in one.events if is_kept(each)]
    return one


def without_steps(one):
    one.events = [each for each in one.events if not each["name"].startswith("ProfilerStep")]
    return one


def test_the_sound_twin_has_no_doubts(tmp_path):
    made = diagnosed(tmp_path, job())
    assert made.health.is_sound
    assert made.health.left_out_steps == ()
    assert {each.cause for each in made} == {"input_starvation"}
    assert found(made, "input_starvation").confidence == "measured"
    assert not any("lost" in each or "lack" in each for each in made.notices)


@pytest.mark.parametrize(("part", "confidence"), [(0.9, "inconclusive"), (0.3, "measured")])
def test_a_step_that_lacks_its_kernels_is_left_out(tmp_path, part, confidence):
    """PyTorch drops kernels at the start of a recording (pytorch#192021).

    If most are lost, more of the critical path is unexplained than may be.
    """
    sound = diagnosed(tmp_path, job())
    (tmp_path / "lost").mkdir()
    lost = without_work(job(), lambda number, at: number == 0 and at < part * 11_000)
    made = diagnosed(tmp_path / "lost", lost)
    assert not made.health.is_sound
    assert made.health.left_out_steps == made.left_out_steps == (0,)
    assert {each.cause for each in made} == {"input_starvation"}
    finding, true = found(made, "input_starvation"), found(sound, "input_starvation")
    assert finding.confidence == confidence
    assert finding.bound == "at least"
    assert 0.75 * true.recoverable_ms < finding.recoverable_ms <= true.recoverable_ms
    assert made.notices[0] == (
        "step 0 lacks GPU work that was launched in it: causes are looked for in the others only"
    )
    assert "kernel launches have no kernel in the trace" in made.notices[1]


def test_nothing_is_measured_if_all_steps_lack_kernels(tmp_path):
    made = diagnosed(tmp_path, without_work(job(), lambda _, at: 3000 < at < 6000))
    assert made.health.left_out_steps == ()
    assert made.health.doubts == ("all steps lack GPU work that was launched in them",)
    assert made.notices[0] == f"all findings are inconclusive: {made.health.doubts[0]}"
    assert made.bound_by == ""
    assert made.status == "findings"
    assert {each.confidence for each in made} == {"inconclusive"}
    assert all("though the recording is not sound: " in each.sentence for each in made)


def test_without_steps_nothing_is_measured(tmp_path):
    one = without_steps(without_work(job(), lambda number, at: number == 1 and at < 9000))
    made = diagnosed(tmp_path, one)
    assert made.health.doubts == ("GPU work that was launched is not in the traces",)
    assert {each.confidence for each in made} == {"inconclusive"}


@pytest.mark.parametrize(("count", "can_tell"), [(250, True), (350, False)])
def test_nothing_is_found_where_most_kernels_are_lost(tmp_path, count, can_tell):
    """Of 24,944 launches of a recording 143 had kernels, and 38 % of it were called warm-up."""
    lost = set(range(25, 25 + count))
    work = iter(range(600))
    one = without_steps(job())
    one.events = [each for each in one.events if each["cat"] != "kernel" or next(work) not in lost]
    made = diagnosed(tmp_path, one)
    assert (len(made) > 0, made.health.lost_most) == (can_tell, not can_tell)
    if not can_tell:
        assert made.status == "cannot_tell"
        assert made.finding.startswith("No cause can be named: most GPU work that was launched is")
        assert [each.what for each in made.not_recorded] == ["Most kernels that were launched are"]
        assert not any("% of the GPU span" in each for each in made.notices)


def test_it_cannot_be_told_whether_such_a_recording_is_healthy(tmp_path):
    one = Host()
    for number in range(4):
        with one.step(number):
            for _ in range(200):
                one.launch(100, takes=6)
            one.synchronise()
    assert diagnosed(tmp_path, one).status == "healthy"
    (tmp_path / "lost").mkdir()
    made = diagnosed(tmp_path / "lost", without_work(one, lambda _, at: 3000 < at < 3700))
    assert (made.status, made.findings) == ("cannot_tell", ())
    assert made.finding == f"No cause can be named: {made.health.doubts[0]}."


@pytest.mark.parametrize(
    ("last_known", "kept"),
    [
        ((4, 0), (0, 1, 2, 3)),
        ((3, 99), (0, 1, 2)),
        ((3, 0), (0, 1, 2)),
        ((2, 50), (0, 1)),
        ((0, 50), (0, 1, 2, 3, 4)),
    ],
)
def test_steps_behind_a_cut_do_not_count_in_the_mean(tmp_path, last_known, kept):
    """Those that began before the last launch with work did all that they launched, if they ended
    before it; without any such step, all count. PyTorch writes what was launched last last."""
    one = job()
    begins = sorted(each["ts"] for each in one.events if each["name"].startswith("ProfilerStep"))
    work = [each for each in one.events if each["cat"] == "kernel"]
    step, launch = last_known
    cut = [each for each in work if each["ts"] < begins[step]]
    cut = work[: len(cut) + launch + 1]
    rest = [each for each in one.events if each["cat"] != "kernel"]
    path = tmp_path / "rank-0.json"
    write(path, [*rest, *cut, work[len(cut)]])
    made = diagnose(open_trace(tmp_path, progress=False))
    assert not any("cut" in each for each in made.notices)
    text = path.read_text()
    path.write_text(text[: text.rindex('"cat"')])
    made = diagnose(open_trace(tmp_path, progress=False))
    assert tuple(made.steps["step"]) == kept
    left_out = sorted({0, 1, 2, 3, 4} - {*kept})
    said = [
        each for each in made.notices if each.endswith("the GPU work after the cut is not known")
    ]
    assert len(said) == bool(left_out)
    if left_out:
        assert said[0].startswith(f"{'step' if len(left_out) == 1 else 'steps'} {left_out[0]}")
    job_of_cut = open_trace(tmp_path, progress=False)
    assert replay(job_of_cut).steps == kept
    assert tuple(diagnose(job_of_cut, steps=[4]).steps["step"]) == (4,)


def with_gpu_clock_off(us):
    """The job that loads data, recorded by a GPU whose clock is off."""
    one = job()
    one.events = [
        each
        | {"ts": each["ts"] + us * (each["cat"] == "kernel")}
        | {"name": each["name"].replace("StreamSync", "DeviceSync")}
        for each in one.events
    ]
    return one


@pytest.mark.parametrize(("us", "confidence"), [(6, "measured"), (8, "inconclusive")])
def test_a_finding_much_larger_than_what_clocks_falsify_is_measured(tmp_path, us, confidence):
    made = diagnosed(tmp_path, with_gpu_clock_off(us))
    assert made.health.doubts == (CLOCKS_APART,)
    loading = found(made, "input_starvation")
    assert loading.confidence == confidence
    assert ("not sound" in loading.sentence) == (confidence == "inconclusive")
    least, apart_us = percent(2 * made.health.clocks.apart_percent), us - 2
    why = f"are inconclusive: {CLOCKS_APART} by up to {apart_us} µs"
    assert made.notices[0] == f"findings of less than {least} {why}"


@pytest.mark.parametrize("us", [-500, 500])
def test_nothing_is_measured_with_clocks_that_contradict(tmp_path, us):
    """The clock of the GPU is early or late."""
    made = diagnosed(tmp_path, with_gpu_clock_off(us))
    assert made.health.doubts == ("the clocks of host and GPU differ",)
    assert not made.health.is_sound
    assert {each.confidence for each in made} <= {"inconclusive"}
    assert made.notices[0].startswith(f"all findings are inconclusive: {made.health.doubts[0]} by")
    assert made.bound_by == ""


def test_nothing_is_measured_with_kernels_that_overlap(tmp_path):
    one = job()
    one.events = [
        each | {"dur": each["dur"] * 1.5} if each["cat"] == "kernel" else each
        for each in one.events
    ]
    made = diagnosed(tmp_path, one)
    assert "kernels overlap on their streams" in made.health.doubts
    assert {each.confidence for each in made} <= {"inconclusive"}


def with_ids(one, number):
    """The same with other correlation ids."""
    one.events = [
        each | {"args": each["args"] | {"correlation": number(each["args"]["correlation"])}}
        if "correlation" in each.get("args", {})
        else each
        for each in one.events
    ]
    return one


@pytest.mark.parametrize("number", [lambda _: 0, lambda number: number % 150 + 1])
def test_launches_in_order_are_known_without_ids_of_their_own(tmp_path, number):
    true = diagnosed(tmp_path, job())
    (tmp_path / "other").mkdir()
    made = diagnosed(tmp_path / "other", with_ids(job(), number))
    assert [each.to_dict() for each in made] == [each.to_dict() for each in true]


@pytest.mark.parametrize(("lost", "doubts"), [(0, 0), (1, 1)])
def test_nothing_is_measured_where_launches_are_not_known(tmp_path, lost, doubts):
    """With one launch less than work, none is known."""
    one = with_ids(job(), lambda _: 0)
    launch = next(each for each in one.events if each["name"] == "cudaLaunchKernel")
    one.events = [each for each in one.events if not lost or each is not launch]
    made = diagnosed(tmp_path, one)
    assert len(made.health.doubts) == doubts
    assert made.health.is_sound == (not doubts)
    assert any("correlation id with several launches" in each for each in made.notices) == doubts
    assert {each.confidence for each in made} <= {"inconclusive" if doubts else "measured"}


def test_what_is_there_twice_changes_no_finding(tmp_path):
    true = diagnosed(tmp_path, job())
    (tmp_path / "twice").mkdir()
    one = job()
    one.events = [*one.events, *one.events]
    made = diagnosed(tmp_path / "twice", one)
    assert [each.to_dict() for each in made] == [each.to_dict() for each in true]
    assert not made.health.is_sound
    assert made.health.doubts == ()


def lost_of_steps(folder, percent):
    """Many launches, of which this part is lost; none of them leaves a hole."""
    events = [event for number in range(2000) for event in launched(number)]
    beside = launched(3000, 1) + [
        each | {"dur": 200_000, "args": each["args"] | {"stream": 9}}
        if each["cat"] == "kernel"
        else each
        for each in launched(3001, 0)
    ]
    every = range(100, 1900)
    lost = [number for place, number in enumerate(every) if place < percent * 2000]
    return lost_in(folder, [*without_work_of(events, *lost), *beside]).matters


def stretches(folder, part):
    """Number of stretches, with two lost launches this part of the recording apart."""
    lost = lost_in(folder, without_work_of(many(1001), 100, round(100 + 1000 * part)))
    return len(lost.stretches)


def is_lost(folder, part):
    """With work without an id for this part of the launches without work."""
    events = [
        each | {"args": each["args"] | {"correlation": 0}}
        if each["cat"] == "kernel" and each["args"]["correlation"] <= round(100 * part)
        else each
        for each in many(200)
    ]
    return lost_in(folder, without_work_of(events, *range(100))).lost > 0


def replays(folder, lost, count):
    """So many replays of graphs, of which the work of some is lost."""
    events = [
        event for number in range(count) for event in launched(number, name="cudaGraphLaunch")
    ]
    return lost_in(folder, [*without_work_of(events, *range(lost)), *launched(count)])


def lost_of_some(folder, count):
    """With the work of so many of 10 replays lost."""
    return replays(folder, count, 10).lacks_replays


def lost_of_many(folder, part):
    """With that of this part of 1,000."""
    return replays(folder, round(1000 * part), 1000).lacks_replays


def known_of_half(folder, part):
    """With the work of this part of 100 known."""
    return replays(folder, round(100 - 100 * part), 100).lacks_replays


def merged(folder, part):
    """With this part of 10,000 operators twice."""
    calls = [host(100 * number, 10, "op") for number in range(10_000)]
    return loaded(folder, [*calls, *calls[: round(part * 10_000 / (1 - part))]])[2].repeated > 0


def again(folder, count):
    """With so many of 30 operators twice."""
    calls = [host(100 * number, 10, "op") for number in range(30)]
    return loaded(folder, [*calls, *calls[:count]])[2].repeated


def left_out(folder, part):
    """With this part of 1,000 kernels years before the others."""
    far = round(part * 1000)
    kernels = [kernel(1e12 * (number >= far) + number, 1) for number in range(1000)]
    return loaded(folder, kernels)[2].impossible


def is_far(folder, ns):
    """With a kernel as far from all others as this."""
    return loaded(folder, [*sound(), kernel(1970 + ns / 1000, 50)])[2].impossible


def early(folder, ns):
    """With a kernel that starts as long before its launch."""
    wrong = [call(3000, 5, 77), kernel(3000 - ns / 1000, 50, correlation=77)]
    return times_of(folder, [*launches(), *wrong])[0].early


def contradict(folder, part):
    """With this part of 2,000 kernels before their launches."""
    events = launches(2000)
    wrong = [each | {"ts": each["ts"] - 20} for each in events[1::2][: round(2000 * part)]]
    return times_of(folder, [*events[::2], *wrong, *events[1::2][len(wrong) :]])[
        0
    ].clocks_contradict


def apart(folder, part):
    """With one of 20 kernels as early as makes this part of 10 ms wrong if all are."""
    early_us = part * 10_000 / 20
    last = [call(1_900, 5, 77), kernel(1_900 - early_us, 50, correlation=77)]
    events = [*launches(19), *last, call(9_995, 5, 999)]
    return times_of(folder, events)[0].clocks_contradict


def far(folder, ns):
    """With one of 20 kernels of 100 s as early as this."""
    last = [call(1_900, 5, 77), kernel(1_900 - ns / 1000, 50, correlation=77)]
    return times_of(folder, [*launches(19), *last, call(1e8, 5, 999)])[0].clocks_contradict


def overlap(folder, part):
    """With 1,000 kernels that begin as much of their length before the one before them ends."""
    events = launches(1000, takes=100 / (1 - part))
    return times_of(folder, [*events, synchronise(200_000, 200_100)])[0].kernels_overlap


def standstill(folder, part):
    """With an operator that stands still for this part of the recording."""
    events = stands_still(takes=10_000 * part)
    return times_of(folder, [*events, host(9_999, 1, "end")])[0].standstill_ns > 0


def times_as_long(folder, times):
    """With an operator that takes as many times as long as others."""
    return times_of(folder, stands_still(takes=100 * times, usual=100))[0].standstill_ns > 0


def with_others(folder, count):
    return times_of(folder, stands_still(others=count))[0].standstill_ns > 0


def unfinished(folder, part):
    """Of 1,000 launches, this part comes after the last one with a kernel."""
    kept = 1_000 - round(1_000 * part)
    later = [call(10**6 + number, 1, 10**6 + number) for number in range(kept, 1_000)]
    _, notices = times_of(folder, [*launches(kept), *later])
    return any("the recording ended before" in each for each in notices)


def without_operators(folder, part):
    """Of 1,000 launches, this part comes before the first operator."""
    events = test_lost_operators.launched(1000, lambda number: number >= round(1000 * part))
    return test_lost_operators.lost_in(folder, events)[1] > 0


def with_operators(folder, part):
    """Of 1,000 launches between operators, this part is made by one; 100 come before."""
    events = test_lost_operators.launched(
        1100, lambda number: number >= 100 and (number == 1099 or number < 99 + 1000 * part)
    )
    return test_lost_operators.lost_in(folder, events)[1] > 0


def few_launches(folder, count):
    """Half of so many launches without an operator."""
    events = test_lost_operators.launched(count, lambda number: number >= count // 2)
    return test_lost_operators.lost_in(folder, events)[1] > 0


def few_calls(folder, count):
    return diagnose(filtered(folder, calls=count)).health.is_no_recording


def part_left(folder, part):
    """Of the calls that there were, by their numbers."""
    return diagnose(filtered(folder, apart=round(1 / part))).health.is_no_recording


def is_in_doubt(_, share):
    """A finding that costs as many times what the clocks falsify."""
    return bool(
        JobHealth(doubts=(CLOCKS_APART,), clocks=WrongTimes(apart_percent=1)).doubts_of(share)
    )


test_thresholds = cases(
    Case("health.CERTAIN", is_in_doubt, {1.9: True, 2.1: False}),
    Case("taken_out.FEWEST_CALLS", few_calls, {499: False, 500: True}),
    Case("taken_out.LEAST_LEFT", part_left, {0.0099: True, 0.0101: False}),
    Case("lost_work.MOST_LOST", lost_of_steps, {0.0095: False, 0.0105: True}),
    Case("lost_work.APART", stretches, {0.049: 1, 0.051: 2}),
    Case("lost_work.MOST_UNFINISHED", unfinished, {0.099: False, 0.101: True}),
    Case("lost_work.BROKEN_LINKS", is_lost, {0.49: True, 0.51: False}),
    Case("lost_work.IN_FLIGHT", lost_of_some, {2: False, 3: True}),
    Case("lost_work.MOST_REPLAYS_LOST", lost_of_many, {0.049: False, 0.051: True}),
    Case("lost_work.GIVING_WORK", known_of_half, {0.49: False, 0.51: True}),
    Case("wrong_events.MERGED", merged, {0.0099: False, 0.0101: True}),
    Case("wrong_events.FEWEST", again, {19: 0, 20: 20}),
    Case("wrong_events.AT_EDGES", left_out, {0.095: 95, 0.105: 0}),
    Case("wrong_events.LEAST_NS", is_far, {990_000_000: 0, 1_010_000_000: 1}),
    Case("wrong_times.ROUNDING_NS", early, {990: 0, 1010: 1}),
    Case("wrong_times.MOST_AGAINST_ORDER", contradict, {0.0095: False, 0.0105: True}),
    Case("wrong_times.MOST_APART", apart, {0.0095: False, 0.0105: True}),
    Case("wrong_times.LAUNCH_NS", far, {19_500: False, 20_500: True}),
    Case("wrong_times.MOST_OVERLAP", overlap, {0.049: False, 0.051: True}),
    Case("wrong_times.STANDSTILL", standstill, {0.199: False, 0.201: True}),
    Case("wrong_times._TIMES_AS_LONG", times_as_long, {9.9: False, 10.1: True}),
    Case("wrong_times._FEWEST_OTHERS", with_others, {2: False, 3: True}),
    Case("lost_work.INSIDE", with_operators, {0.895: False, 0.905: True}),
    Case("lost_work.OUTSIDE", without_operators, {0.049: False, 0.051: True}),
    Case("lost_work.FEWEST_LAUNCHES", few_launches, {19: False, 20: True}),
)
