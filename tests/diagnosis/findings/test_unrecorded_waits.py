"""Recordings without the calls in which the host waits: who is the bottleneck cannot be told."""

from __future__ import annotations

import pytest

from hta_widgets.trace.model.health.unrecorded_waits import polled_waits
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import health_of
from tests.diagnosis.findings.scripts import Host, diagnosed
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import call, host, kernel, write

LACK = "Calls that wait for the GPU are not recorded"


def waiting(rounds=20, kernels=10, length=200, after=50):
    """A host that launches a few kernels, waits for them, and is busy for a moment (µs)."""
    one = Host()
    for _ in range(rounds):
        for _ in range(kernels):
            one.launch(length)
        one.synchronise()
        one.now += after
    return one


def without_waits(one):
    one.events = [each for each in one.events if "Synchronize" not in each["name"]]
    return one


def lacks_waits(made):
    assert (LACK in [each.lack for each in made.not_recorded]) == made.health.lacks_waits
    return made.health.lacks_waits


def test_a_host_that_waits_unseen_is_not_called_slow(tmp_path):
    """It was launch-bound for 30 ms of 300 on two H100, bound by the host for 99.9 %."""
    made = diagnosed(tmp_path, without_waits(waiting(after=200)))
    assert lacks_waits(made)
    assert not {each.cause for each in made} & {"launch_bound", "host_pause", "step_gap"}
    assert made.bound_by == ""


def test_with_its_waits_the_same_job_is_bound_by_the_gpu(tmp_path):
    made = diagnosed(tmp_path, waiting())
    assert not lacks_waits(made)
    assert made.bound_by.startswith("bound by the GPU")


def test_a_busy_gpu_is_healthy_whoever_sets_the_pace(tmp_path):
    made = diagnosed(tmp_path, without_waits(waiting(kernels=1, length=1000, after=5)))
    assert lacks_waits(made)
    assert made.status == "healthy"
    assert "Computing takes 9" in made.finding
    assert "is the bottleneck" not in made.finding


def test_an_idle_gpu_has_no_known_cause(tmp_path):
    """In 8 of 20 rounds, the host is late for half of the time, and may have been busy then."""
    made = diagnosed(tmp_path, with_events(goes_on(count=12, others=8)))
    assert lacks_waits(made)
    assert made.status == "cannot_tell"
    assert made.finding == (
        "No cause can be named: the GPU is idle for 23.9 % of the GPU span, and calls that wait "
        "for the GPU are not recorded."
    )


def test_a_slow_host_goes_on_at_any_time(tmp_path):
    """It takes 1 ms for something of its own between two launches, whatever the kernels take."""
    one = Host()
    for number in range(40):
        one.launch(25 * number + 10)
        one.now += 990
    made = diagnosed(tmp_path, one)
    assert not lacks_waits(made)
    assert made.bound_by.startswith("bound by the host")


def with_events(events):
    one = Host()
    one.events = events
    return one


def waits_of(folder, events):
    job = open_trace(write(folder / "rank-0.json", events), progress=False)
    return job.reduce(health_of, [0])[0].waits


def goes_on(silence_us=1000, soon=0.05, *, count=20, others=0, every=0):
    """Launches with a silence after each that ends as soon (part of it) after the kernel.

    After some others, the host goes on half of the silence later; and one launch comes long after.
    """
    events, now = [], 0.0
    for number in range(count + others):
        part = soon if number < count else 0.5
        events += [
            call(now, 5, number + 1),
            kernel(now + 10, (1 - part) * silence_us - 5, correlation=number + 1),
        ]
        now += 5 + silence_us
    events += [call(now, 5, 1000), kernel(now + 10, 5, correlation=1000)]
    events += [host(now + 100 * n, 1, "aten::size") for n in range(1, int(every // 100))]
    now += every
    return [*events, call(now, 5, 1001), kernel(now + 10, 5, correlation=1001)]


def test_silences_are_counted(tmp_path):
    waits = waits_of(tmp_path, goes_on(others=10))
    assert (waits.silences, waits.soon) == (30, 20)
    assert waits.percent == pytest.approx(100 * 20 / 30, rel=0.02)
    assert waits.matter


def test_what_the_host_begins_is_no_silence(tmp_path):
    begun = [host(1005 * n + 500, 1, "aten::size") for n in range(20)]
    assert waits_of(tmp_path, [*goes_on(900), *begun]).silences < 20


def polls(rounds=10, silence_us=2000.0, early_us=50.0, *, others=0):
    """Rounds in which the host launches computing for later, then polls for a kernel of its own.

    It goes on before that kernel ends; in some others, half of the silence later.
    """
    events, now, busy = [], 0.0, 3000.0
    for number in range(rounds + others):
        one = 10 * number + 1
        early = early_us if number < rounds else -silence_us / 2
        events += [call(now, 5, one), kernel(busy, silence_us + 10, stream=7, correlation=one)]
        done = now + 10 + silence_us + early
        asked = call(now + 5, 5, one + 1)
        events += [asked, kernel(now + 12, done - now - 12, stream=20, correlation=one + 1)]
        now, busy = now + 10 + silence_us, busy + silence_us + 10
    return [*events, call(now, 5, 9001), kernel(busy, 5, stream=7, correlation=9001)]


def test_a_host_that_polls_for_its_kernel_does_not_set_the_pace(tmp_path):
    """A training step of DeepSeek's was bound by the host for 81.4 % of the critical path."""
    made = diagnosed(tmp_path, with_events(polls()))
    assert not lacks_waits(made)
    assert made.bound_by.startswith("bound by the GPU")
    assert made.status == "healthy"


def polled(folder, **options):
    job = open_trace(write(folder / "rank-0.json", polls(**options)), progress=False)
    return len(job.reduce(_polled, [0])[0].work)


def _polled(rank):
    return polled_waits(rank.trace.events, rank.silences)


@pytest.mark.parametrize(("others", "found"), [(9, 10), (10, 0)])
def test_most_silences_end_with_their_kernel_where_the_host_polls(tmp_path, others, found):
    assert polled(tmp_path, others=others) == found


def matters(folder, **options):
    return waits_of(folder, goes_on(**options)).matter


test_thresholds = cases(
    Case(
        "unrecorded_waits.SILENT_NS",
        lambda folder, ns: matters(folder, silence_us=ns / 1000),
        {490_000: False, 510_000: True},
    ),
    Case(
        "unrecorded_waits.SOON",
        lambda folder, part: matters(folder, soon=part),
        {0.095: True, 0.105: False},
    ),
    Case(
        "unrecorded_waits.CLOSE_NS",
        lambda folder, ns: polled(folder, early_us=ns / 1000) > 0,
        {95_000: True, 105_000: False},
    ),
    Case(
        "unrecorded_waits.FEWEST",
        lambda folder, count: matters(folder, count=count),
        {2: False, 3: True},
    ),
    Case(
        "unrecorded_waits.MOST_BY_CHANCE",
        lambda folder, part: matters(
            folder, count=round(100 * part), others=100 - round(100 * part)
        ),
        {0.49: False, 0.51: True},
    ),
    Case(
        "unrecorded_waits.LEAST_PERCENT",
        lambda folder, percent: matters(folder, every=20_000 * (100 / percent - 1)),
        {9.5: False, 10.5: True},
    ),
)
