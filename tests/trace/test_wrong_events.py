"""Events that are in a file twice, and GPU work at times that cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.trace.model.events import Events
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import health_of
from tests.kineto_text import call, host, kernel, write

US = 1000
SECOND = 1_000_000  # in µs, as files have them


def loaded(folder, events, **options):
    job = open_trace(write(folder / "rank-0.json", events, **options), progress=False)
    return job, job.rank(0).trace, job.reduce(health_of, [0])[0].faults


def sound(count=20):
    """Launches every 100 µs, each inside an operator, with the bytes of a copy."""
    return [
        event
        for number in range(count)
        for event in (
            host(100 * number, 30, f"aten::op{number % 3}"),
            call(100 * number + 5, 5, number + 1),
            kernel(100 * number + 20, 50, correlation=number + 1, cat="gpu_memcpy", bytes=number),
        )
    ]


def same_events(one: Events, other: Events) -> bool:
    names = ("start_ns", "duration_ns", "kind", "pid", "tid", "device", "stream", "correlation")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names) and (
        one.names_at(np.arange(len(one))) == other.names_at(np.arange(len(other)))
    )


@given(data=st.data())
def test_what_is_there_twice_counts_once(tmp_path_factory, data):
    """Against the same file without repetitions; half of the operators, or none, are repeated."""
    folder = tmp_path_factory.mktemp("twice")
    events = sound()
    with_ids = [each for each in events if each["cat"] != "cpu_op"]
    again = data.draw(st.lists(st.sampled_from(with_ids), max_size=30, unique_by=id))
    if again and data.draw(st.booleans()):
        again += [each for each in events if each["cat"] == "cpu_op"][::2]
    mixed = data.draw(st.permutations([*events, *again]))
    _, true, _ = loaded(folder, events)
    job, trace, faults = loaded(folder, mixed)
    assert faults.repeated == len(again)
    assert same_events(trace.events, true.events)
    copied = trace.events.side["transfers"]
    assert copied.columns["bytes"][copied.rows.argsort()].tolist() == [*range(20)]
    assert len([each for each in job.notices if "twice" in each]) == bool(again)


def test_recursions_within_a_step_of_the_clock_are_no_repetitions(tmp_path):
    calls = [host(100 * number, 1, "aten::to") for number in range(2500)]
    for again, counted in ((19, 0), (25, 0), (26, 26)):
        _, trace, faults = loaded(tmp_path, [*calls, *calls[:again]])
        assert (faults.repeated, len(trace.events)) == (counted, 2500 + again - counted)
    _, trace, faults = loaded(tmp_path, [*calls[:100], *calls[:19]])
    assert faults.repeated == 0
    _, trace, faults = loaded(tmp_path, [*calls[:100], *calls[:19], *[call(7, 1, 9)] * 2])
    assert faults.repeated == 20


def test_what_differs_in_anything_is_no_repetition(tmp_path):
    first = kernel(100, 50, correlation=1)
    others = (
        kernel(100, 51, correlation=1),
        kernel(101, 50, correlation=1),
        kernel(100, 50, correlation=2),
        kernel(100, 50, correlation=1, name="other"),
        kernel(100, 50, correlation=1, stream=8),
        kernel(100, 50, correlation=1, device=1),
        kernel(100, 50, correlation=1, cat="gpu_memset"),
    )
    assert loaded(tmp_path, [first, *others])[2].repeated == 0


def test_work_without_a_duration_is_kept(tmp_path):
    """Of a µs clock: two short copies of one graph have the same times."""
    assert loaded(tmp_path, [*sound(), *[kernel(500, 0, correlation=3)] * 2])[2].repeated == 0


@pytest.mark.parametrize(
    ("wrong", "is_left_out"),
    [
        pytest.param(kernel(0, 1e9 + 1050, correlation=11), True, id="start 0 with a right end"),
        pytest.param(kernel(0, 50, correlation=11), True, id="start 0 with a right duration"),
        pytest.param(kernel(1e9 + 1020, 1e7, correlation=11), True, id="10 s over other kernels"),
        pytest.param(kernel(1e9 + 1e8, 50, correlation=11), True, id="100 s after all others"),
        pytest.param(kernel(1e9 + 1020, 1e7, stream=9), False, id="10 s alone on its stream"),
        pytest.param(kernel(1e9 + 1020, 9e5), False, id="less than a second"),
        pytest.param(kernel(1e9 - 1e5, 50), False, id="launched before the recording"),
    ],
)
def test_work_at_times_that_cannot_be_is_left_out(tmp_path, wrong, is_left_out):
    events = [each | {"ts": each["ts"] + 1e9} for each in sound()]
    base = {"baseTimeNanoseconds": 7}
    _, true, _ = loaded(tmp_path, events, **base)
    job, trace, faults = loaded(tmp_path, [*events, wrong], **base)
    assert faults.impossible == is_left_out
    assert len(trace.events) == len(events) + (not is_left_out)
    assert any("far outside" in each for each in job.notices) == is_left_out
    if is_left_out:
        assert same_events(trace.events, true.events)
        assert trace.origin_ns == true.origin_ns == 1e9 * US + 7


def test_work_at_other_times_than_the_host_is_kept(tmp_path):
    """The clock of the GPU is years ahead: none of its work is out of place among the others."""
    ahead = [
        each | {"ts": each["ts"] + 1e8 * SECOND * (each["cat"] != "cpu_op")} for each in sound()
    ]
    assert loaded(tmp_path, ahead)[2].impossible == 0


def test_what_was_left_out_is_known_to_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "cache"))
    events = [*sound(), *sound()]
    first = loaded(tmp_path, events)[2]
    assert loaded(tmp_path, events)[2] == first
    assert first.repeated == 60


def test_a_file_that_is_cut_is_known_to_be(tmp_path):
    path = write(tmp_path / "rank-0.json", sound())
    assert not open_trace(path, progress=False).rank(0).trace.faults.is_cut
    path.write_bytes(path.read_bytes()[:-300])
    job = open_trace(path, progress=False)
    assert job.rank(0).trace.faults.is_cut
    assert not job.reduce(health_of, [0])[0].is_sound
