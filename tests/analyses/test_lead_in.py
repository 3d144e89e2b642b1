"""A GPU that is busy with work launched before the recording."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.launch_overlap import launch_overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.analyses.time.window import lead_in_end, window_of
from hta_widgets.analyses.timeline.classes import CLASSES
from hta_widgets.analyses.timeline.lanes_of_job import LaneAsked, job_lanes
from hta_widgets.diagnosis import diagnosis
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, host, kernel, step
from tests.raw_idle import RawIdle, read

KERNELS = 40


def server(waits_us, *, first_us=0.0, marks=()):
    """Launched 4 µs before a stream is free for it, and then late for each kernel; all in µs.

    A kernel of another stream runs first, for so long as asked.
    """
    free = 100 + waits_us
    events = [*marks, host(10, 20, "aten::mm"), call(95, 5, 1), kernel(free, 50, correlation=1)]
    if first_us:
        events += [call(1, 1, 2), kernel(3, first_us, correlation=2, stream=20)]
    for number in range(3, 3 + KERNELS):
        at = free + 100 * number
        events += [host(at - 5, 10, "aten::mm"), call(at, 5, number)]
        events += [kernel(at + 10, 80, correlation=number)]
    return events


def first_edge_us(folder, waits_us, first_us=0.0, marks=()):
    """When the first step or the GPU span begins, after the first event, which is at 10 or 1."""
    rank = open_job(folder, [server(waits_us, first_us=first_us, marks=marks)]).rank(0)
    edges = window_of(rank).step_edges(rank, rank.gpu_work.main_device)
    return int(edges[0] - window_of(rank).start_ns) / 1000


def test_the_span_begins_when_earlier_work_is_done(tmp_path):
    made = diagnosis(open_job(tmp_path, [server(9_000)]))
    assert made.step_ns == (100 * (2 + KERNELS) + 10 + 80) * 1000
    assert (
        "for the first 9.09 ms of the recording, the GPU was busy with, or blocked on, work "
        "launched before it and not recorded: that time is left out"
    ) in made.notices
    assert [each.cause for each in made] == ["launch_bound"]
    idle_us = 250 + 10 + 20 * (KERNELS - 1)  # each is launched when the one before is done
    assert made[0].recoverable_ms <= idle_us / 1000
    assert made.shares["waiting that nothing recorded explains"] == 0


@pytest.mark.parametrize(
    ("begins", "correlation", "is_left_out"),
    [(10_000, None, True), (9_999, None, False), (10_000, 1, False)],
)
def test_nothing_is_counted_before_the_host_is_recorded(tmp_path, begins, correlation, is_left_out):
    """97 % of a recording had no cause: a GPU finished its work, and 3.8 s later the host began."""
    early = [kernel(0, 10, correlation=correlation), kernel(20, 10)]
    late = [(begins + 20 * number, number + 1) for number in range(KERNELS)]
    calls = [call(at, 5, number) for at, number in late]
    kernels = [kernel(at + 10, 8, correlation=number) for at, number in late]
    found = diagnosis(open_job(tmp_path, [[*early, *calls, *kernels]]))
    assert (found.step_ns < 1_000_000) == is_left_out
    said = "no call of the host is recorded in the first 10 ms"
    assert (said in str(found.notices)) == is_left_out


def test_of_several_ranks_those_are_named(tmp_path):
    made = diagnosis(open_job(tmp_path, [server(9_000), server(20), server(8_000)]))
    assert any(
        notice.startswith("for up to the first 9.09 ms of the recording, the GPU of ranks 0, 2 ")
        for notice in made.notices
    ), made.notices


def test_the_first_step_begins_when_earlier_work_is_done(tmp_path):
    marks = [step(1, 0, 10_000), step(2, 10_000, 10_000)]
    assert first_edge_us(tmp_path, 9_000, marks=marks) == 9_100


def test_a_launch_that_returns_late_loads_code(tmp_path):
    """The GPU is not busy before: it cannot begin."""
    events = [host(0, 1, "aten::mm"), call(1, 9_000, 1), kernel(9_010, 50, correlation=1)]
    rank = open_job(tmp_path, [events]).rank(0)
    assert lead_in_end(rank, 0) is None


def test_a_copy_that_blocks_in_a_later_step_waits_for_earlier_work(tmp_path):
    """Of ResNet-50: a step of 122 ms took 170 ms, of which 43 ms were called idle. In the first
    steps, the call may initialise the GPU."""
    for first, is_known in ((1, False), (2, True)):
        marks = [step(first, 0, 10_000), step(first + 1, 10_000, 10_000)]
        copy = [call(5, 9_100, 1), kernel(9_000, 100, cat="gpu_memcpy", correlation=1)]
        later = [call(10_000, 5, 2), kernel(10_010, 50, correlation=2)]
        rank = open_job(tmp_path, [[*marks, *copy, *later]]).rank(0)
        assert lead_in_end(rank, 0) == (9_000_000 if is_known else None)


def test_work_of_the_step_before_is_none_of_the_first_beside_that_of_another_stream(tmp_path):
    """Of a recommender: what prepares its next batch runs on a stream of its own, beside 150 ms of
    the step before, which made the first of four equal steps 366 instead of 216 ms."""
    marks = [step(number, at, 1_000) for number, at in enumerate((1_000, 2_000, 3_000), 5)]
    before = [kernel(at, 90) for at in range(1_000, 1_800, 100)]
    beside = [call(1_010, 5, 1), kernel(1_050, 10, stream=20, correlation=1)]
    own = [
        each
        for at in (1_500, 2_500)
        for each in (call(at, 5, at), kernel(at + 400, 300, correlation=at))
    ]
    rank = open_job(tmp_path, [[*marks, *before, *beside, *own]]).rank(0)
    edges = window_of(rank).step_edges(rank, 0) - window_of(rank).start_ns
    assert (edges // 1_000).tolist() == [790, 1_200, 2_200]


def test_a_kernel_that_the_recorder_lost_may_be_what_is_waited_for(tmp_path):
    events = server(9_000)
    rank = open_job(tmp_path, [[*events, call(50, 5, 1_000)]]).rank(0)
    assert lead_in_end(rank, 0) is None
    assert lead_in_end(open_job(tmp_path, [events]).rank(0), 0) is not None


@pytest.mark.parametrize(("again_us", "is_told"), [(4_490, True), (4_510, False)])
def test_a_gpu_that_makes_later_work_wait_as_long_shows_no_earlier_work(
    tmp_path, again_us, is_told
):
    """As another process uses it: four launches waited 2.2 ms each, the first of a job, too."""
    ends_us = 100 + 9_000 + 100 * (2 + KERNELS) + 90
    again = [call(ends_us, 5, 1_000), kernel(ends_us + 5 + again_us, 80, correlation=1_000)]
    rank = open_job(tmp_path, [[*server(8_995), *again]]).rank(0)
    assert (lead_in_end(rank, 0) is not None) == is_told


def test_work_without_a_launch_is_recorded_and_counts(tmp_path):
    events = [call(0, 1, 1), kernel(100, 50), kernel(9_000, 50, correlation=1)]
    rank = open_job(tmp_path, [events]).rank(0)
    assert lead_in_end(rank, 0) is None


@st.composite
def starting_jobs(draw):
    """Some work on up to three streams; times are multiples of 100 µs."""
    times, lengths = st.integers(0, 40), st.integers(0, 8)
    events = [host(0, 1, "aten::mm")]
    for number in range(draw(st.integers(1, 6))):
        asked = 100 * draw(times)
        if draw(st.integers(0, 5)):
            events.append(call(asked, draw(st.sampled_from([1, 900])), number))
        start, length = asked + 100 * draw(times), draw(st.sampled_from([0, 1, 10, 100]))
        stream, device = draw(st.sampled_from([7, 20, 21])), draw(st.sampled_from([0, 0, 1]))
        events.append(kernel(start, length, correlation=number, stream=stream, device=device))
    return draw(st.permutations(events)) if draw(lengths) else events


@given(starting_jobs())
def test_against_brute_force(tmp_path_factory, events):
    rank = open_job(tmp_path_factory.mktemp("lead"), [events]).rank(0)
    raw, begin_ns = RawIdle(events), window_of(rank).start_ns
    for device in raw.devices():
        expected = max(raw.unseen_until(device), default=None)
        found = lead_in_end(rank, device)
        assert found == (None if expected is None else begin_ns + expected - raw.window[0])


@pytest.mark.parametrize(
    ("trace", "lead_in_ms"),
    [
        ("sglang_decode_graph/sglang_Qwen3-8B_decode.json.gz", 463.380),
        ("vllm_piecewise/rank-0.json.gz", 151.231),
        ("h100_qwen/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", None),
        ("h100_bert/gaunernst_bert-small-uncased__1016001.json.gz", None),
    ],
)
def test_real_traces(real_traces, trace, lead_in_ms):
    """Servers are recorded while a batch runs; brute force says the same."""
    path = real_traces / "kineto" / trace
    rank = open_trace(path, progress=False).rank(0)
    device, raw = rank.gpu_work.main_device, read(path)
    found, expected = lead_in_end(rank, device), max(raw.unseen_until(device), default=None)
    assert (found is None) == (expected is None) == (lead_in_ms is None)
    if found is not None:
        assert (found - window_of(rank).start_ns) / 1e6 == pytest.approx(lead_in_ms, abs=0.001)
        assert expected - raw.window[0] == found - window_of(rank).start_ns


@pytest.mark.parametrize(
    ("waits_us", "first_us", "begins_us"),
    [
        (999.999, 0, 90 + 999.999),  # the first kernel begins there in any case
        (5_000, 50, 99 + 5_000),
        (5_000, 51, 2),  # so much else runs that the GPU is not busy with earlier work
        (999.999, 9, 2),
        (1_000, 9, 99 + 1_000),
    ],
)
def test_limits(tmp_path, waits_us, first_us, begins_us):
    assert first_edge_us(tmp_path, waits_us, first_us=first_us) == pytest.approx(begins_us)


@pytest.mark.parametrize(("before_us", "is_told"), [(8_900, True), (9_200, False)])
def test_a_short_wait_proves_no_long_lead_in(tmp_path, before_us, is_told):
    """The kernel starts 9 ms after its launch, the recording begins long before."""
    events = [host(100 - before_us, 5, "aten::empty"), *server(9_000)]
    rank = open_job(tmp_path, [events]).rank(0)
    assert (lead_in_end(rank, rank.gpu_work.main_device) is not None) == is_told


def test_the_owners_of_idle_time_say_that_it_is_none(tmp_path):
    made = idle_owners(open_job(tmp_path, [server(9_000)]))
    said = "for the first 9.09 ms, the GPU was busy with, or blocked on, work launched before the "
    assert any(each.startswith(said) for each in made.notices)
    (tmp_path / "free").mkdir()
    made = idle_owners(open_job(tmp_path / "free", [server(20)]))
    assert not any("launched before" in each for each in made.notices)


def test_no_analysis_counts_it_as_analysed_time(tmp_path):
    ends_us = 100 + 9_000 + 100 * (2 + KERNELS) + 90
    marks = [step(1, 0, ends_us)]
    job = open_job(tmp_path, [server(9_000, marks=marks)])
    devices = idle_owners(job).devices
    assert devices["window_ns"].tolist() == [(ends_us - 9_100) * 1000]
    of_rank = temporal_breakdown(job).ranks.iloc[0]
    assert of_rank["steps_ns"] == devices["window_ns"].sum()
    assert of_rank["steps_idle_ns"] == devices["idle_ns"].sum()
    first_us = idle_owners(job, window_ns=(0, 9_100_000)).devices
    assert first_us["window_ns"].tolist() == [0]


def test_the_timeline_hatches_it(tmp_path):
    job = open_job(tmp_path, [server(9_000, first_us=50)])
    [found] = job_lanes(job).window([LaneAsked(0, "rank", 0)], 0, 12_000_000, 1, most_events=1_000)
    covered = {CLASSES[code]: ns for code, [ns] in zip(found.codes, found.covered_ns, strict=True)}
    # from the first event, at 1 µs, until the GPU is free at 9,100, without the kernel that runs
    assert covered["lead_in"] == (9_100 - 1 - 50) * 1000


def test_launches_are_not_said_to_be_exposed(tmp_path):
    events = server(9_000)
    first = next(each for each in events if each["ts"] == 95)
    first |= {"ts": 40, "dur": 60}
    result = launch_overlap(open_job(tmp_path, [events]))
    (row,) = result.ranks.to_dict("records")
    assert row["unknown_ns"] == 60_000
    assert row["exposed_ns"] == row["call_time_ns"] - row["hidden_ns"] - 60_000
    assert result.finding.endswith(
        "; the trace cannot tell whether a kernel hid 23.1 % of the launch time (60 µs): a GPU was "
        "busy with, or blocked on, work launched before the recording."
    )
