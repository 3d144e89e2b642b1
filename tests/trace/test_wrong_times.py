"""Times that contradict each other: of launches, of calls that wait, of one stream, of clocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.facts import health_of
from tests.kineto_text import call, host, kernel, write

US = 1000


def times_of(folder, events):
    job = open_trace(write(folder / "rank-0.json", events), progress=False)
    return job.reduce(health_of, [0])[0].times, job.notices


def launched(number, at, *, delay=10, takes=50, **options):
    """A launch, and its kernel as much later (µs)."""
    return [
        call(at, 5, number + 1),
        kernel(at + delay, takes, correlation=number + 1, **options),
    ]


def launches(count=10, every=100, **options):
    return [each for number in range(count) for each in launched(number, every * number, **options)]


def synchronise(at, until, name="cudaDeviceSynchronize"):
    return call(at, until - at, 900 + at, name=name)


def test_a_sound_recording_contradicts_nothing(tmp_path):
    times, notices = times_of(tmp_path, [*launches(), synchronise(920, 970)])
    assert (times.linked, times.early, times.waits, times.late) == (10, 0, 1, 0)
    assert (times.overlapping, times.overlap_percent, times.standstill_ns) == (0, 0, 0)
    assert not times.clocks_contradict
    assert not times.kernels_overlap
    assert notices == ()


def test_work_before_its_launch_is_counted(tmp_path):
    events = [*launches(), *launched(20, 2000, delay=-3), *launched(21, 2100, delay=-1)]
    times, notices = times_of(tmp_path, events)
    assert (times.linked, times.early) == (12, 1)
    assert times.clocks_contradict
    assert "1 of 12 GPU operations start before the call that launches them" in notices[0]


@pytest.mark.parametrize(
    ("wait", "counts"),
    [
        pytest.param(synchronise(920, 970), (1, 0), id="ends with it"),
        pytest.param(synchronise(920, 968.9), (1, 1), id="1.1 µs before"),
        pytest.param(synchronise(920, 968.9, "hipDeviceSynchronize"), (1, 1), id="of AMD"),
        pytest.param(synchronise(920, 969.1), (1, 0), id="rounded"),
        pytest.param(synchronise(890, 897), (1, 0), id="begins before the launch"),
        pytest.param(
            synchronise(904, 914) | {"tid": 7}, (1, 0), id="while another thread launches"
        ),
        pytest.param(synchronise(920, 930, "cudaStreamSynchronize"), (0, 0), id="of any stream"),
    ],
)
def test_calls_that_return_before_what_they_wait_for(tmp_path, wait, counts):
    """The last kernel is launched at 900 µs and ends at 960 µs, or 970."""
    times, notices = times_of(tmp_path, [*launches(9), *launched(9, 900, takes=60), wait])
    assert (times.waits, times.late) == counts
    assert times.clocks_contradict == bool(counts[1])
    assert any("return before it is done" in each for each in notices) == bool(counts[1])


@pytest.mark.parametrize(
    ("thread", "name", "until", "counts"),
    [
        (100, "Memcpy DtoH (Device -> Pageable)", 965, (1, 0)),
        (100, "Memcpy DtoH (Device -> Pageable)", 955, (1, 1)),
        (100, "CopyDeviceToHost", 955, (1, 1)),
        (100, "Memcpy HtoD (Pageable -> Device)", 955, (0, 0)),
        (7, "Memcpy DtoH (Device -> Pageable)", 955, (0, 0)),
    ],
)
def test_calls_that_return_before_a_copy_to_the_host(tmp_path, thread, name, until, counts):
    """The copy ends at 960 µs."""
    wait = synchronise(920, until, "cudaStreamSynchronize") | {"tid": thread}
    copy = launched(9, 900, name=name, cat="gpu_memcpy")
    times, _ = times_of(tmp_path, [*launches(9), *copy, wait])
    assert (times.waits, times.late) == counts


@pytest.mark.parametrize(
    ("call_name", "copy_name", "takes", "counts"),
    [
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pageable)", 65, (1, 0)),
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pageable)", 55, (1, 1)),
        ("hipMemcpyWithStream", "CopyDeviceToHost", 55, (1, 1)),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", 55, (0, 0)),
        ("cudaMemcpy", "Memcpy HtoD (Pageable -> Device)", 55, (0, 0)),
    ],
)
def test_copies_that_return_before_they_are_done(tmp_path, call_name, copy_name, takes, counts):
    """The copy ends 60 µs after its call begins."""
    copy = kernel(910, 50, name=copy_name, cat="gpu_memcpy", correlation=10)
    events = [*launches(9), call(900, takes, 10, name=call_name), copy]
    times, _ = times_of(tmp_path, events)
    assert (times.waits, times.late) == counts


def test_with_several_gpus_it_is_not_known_which_is_waited_for(tmp_path):
    events = [*launched(0, 0, device=0), *launched(1, 100, takes=500, device=1)]
    assert times_of(tmp_path, [*events, synchronise(120, 130)])[0].waits == 0


@pytest.mark.parametrize(("delay", "waits"), [(10, 0), (60, 1)])
def test_a_call_may_wait_for_the_first_gpu_while_another_works(tmp_path, delay, waits):
    """It returns 50 µs before the third GPU is done, whose work starts soon after its launches."""
    events = [*launches(9, delay=delay, device=2), *launched(9, 900, delay=delay, device=2)]
    times, _ = times_of(tmp_path, [*events, synchronise(907, 900 + delay)])
    assert (times.waits, times.late) == (waits, waits)


kernels = st.lists(
    st.builds(
        kernel,
        st.integers(0, 60),
        st.integers(0, 20),
        stream=st.sampled_from([7, 8]),
        device=st.sampled_from([0, 1]),
        correlation=st.sampled_from([None, 1, 2]),
    ),
    max_size=12,
    unique_by=lambda each: each["ts"],
)


@given(kernels)
def test_overlaps_of_a_stream(tmp_path_factory, drawn):
    """Against a loop over all pairs; what one graph launches may overlap what comes before."""
    times, _ = times_of(tmp_path_factory.mktemp("trace"), [host(0, 100, "op"), *drawn])
    count = overlap = 0
    for each in drawn:
        mine = [
            other
            for other in drawn
            if (other["pid"], other["tid"]) == (each["pid"], each["tid"])
            and other["ts"] < each["ts"]
        ]
        if not mine:
            continue
        before = max(mine, key=lambda other: other["ts"])["args"].get("correlation")
        if before is not None and before == each["args"].get("correlation"):
            continue
        runs_until = max(other["ts"] + other["dur"] for other in mine)
        both = min(runs_until, each["ts"] + each["dur"]) - each["ts"]
        if both > 1:
            count, overlap = count + 1, overlap + both
    whole = sum(each["dur"] for each in drawn)
    assert times.overlapping == count
    assert times.overlap_percent == pytest.approx(100 * overlap / whole if whole else 0)


def test_kernels_that_overlap_are_counted_from_a_limit_on(tmp_path):
    times, notices = times_of(tmp_path, launches(takes=115))
    assert (times.overlapping, times.kernels_overlap) == (9, True)
    assert "9 GPU operations start while others on their stream run" in notices[0]
    times, notices = times_of(tmp_path, launches(takes=103))
    assert (times.overlapping, times.kernels_overlap, notices) == (9, False, ())


def test_streams_of_other_apis_may_overlap(tmp_path):
    events = [
        each | {"name": "mtiaLaunch", "cat": "mtia_runtime"} if "cuda" in each["name"] else each
        for each in launches(takes=115)
    ]
    times, notices = times_of(tmp_path, events)
    assert (times.linked, times.overlapping, notices) == (10, 0, ())


def stands_still(name="aten::add", others=6, takes=400, usual=10):
    """Operators every 100 µs, and one that takes longer."""
    before = [host(100 * number, usual, "aten::add") for number in range(others)]
    return [*before, host(1000, takes, name), *launched(0, 1100 + takes)]


def test_an_operator_in_which_all_stands_still(tmp_path):
    times, notices = times_of(tmp_path, stands_still(takes=400))
    assert times.standstill_ns == 400 * US
    assert "nothing starts or ends for 400 µs" in notices[0]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(stands_still(name="aten::first"), id="the only one of its name"),
        pytest.param(stands_still(name="cudaFree"), id="no operator"),
        pytest.param(
            [*stands_still(), host(-2000, 900, "aten::add"), host(-2010, 920, "aten::to")],
            id="the first one",
        ),
        pytest.param(
            [
                *(host(0, 10, "aten::mul"), *stands_still(others=0)),
                *(host(at, 10, "aten::add") for at in range(1410, 1500, 12)),
            ],
            id="the first one of its name",
        ),
        pytest.param(
            [each for each in stands_still() if each["cat"] == "cpu_op"], id="no GPU work"
        ),
        pytest.param(
            [
                each | {"args": {"Input Dims": [[1 + each["dur"] // 100]]}}
                if each["cat"] == "cpu_op"
                else each
                for each in stands_still()
            ],
            id="the only one of its shapes",
        ),
        pytest.param(stands_still(takes=99), id="ten times as long as usual at most"),
        pytest.param(
            [*stands_still(), host(1150, 10, "other", tid=7)], id="something else goes on"
        ),
        pytest.param(
            [*stands_still(), call(1010, 380, 99, name="cudaFree")], id="a call inside of it"
        ),
        pytest.param([*stands_still(), host(5000, 10, "aten::mul")], id="short for the recording"),
        pytest.param([], id="nothing recorded"),
    ],
)
def test_pauses_that_are_none_of_a_clock(tmp_path, events):
    assert times_of(tmp_path, [*events, host(1600, 1, "end")])[0].standstill_ns == 0
