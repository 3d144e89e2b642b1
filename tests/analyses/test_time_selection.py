"""Steps and windows: the same numbers as in a trace that is cut there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.flame import flame
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_time import idle_time
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.analyses.operators import operators
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import ParameterError, UnknownStepError
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_idle_owners import calls_and_work
from tests.kineto_text import call, host, kernel, step
from tests.raw_idle import RawIdle
from tests.spans import merged

ANALYSES = [temporal_breakdown, overlap, kernel_breakdown, idle_owners, idle_time]


def counted(raw, device, *, steps=(), window=None):
    """Stretches of time of a device that are counted (ns, as the events say)."""
    stretches = [raw.window]
    if steps:
        bounds = raw.step_bounds(device)
        stretches = [(begin, end) for number, begin, end in bounds if number in steps]
    if window is not None:
        stretches = [(max(a, window[0]), min(b, window[1])) for a, b in stretches]
    return merged([(a, b) for a, b in stretches if a < b])


def cut_events(raw, stretches_of):
    """The GPU work of a trace that was cut at the edges of the stretches of each device."""
    for each in raw.work:
        for a, b in stretches_of.get(each["device"], ()):
            start, end = max(each["start"], a), min(each["end"], b)
            is_instant = each["start"] == each["end"] and a <= each["start"] < b
            if start < end or is_instant:
                yield kernel(
                    start / 1000, (end - start) / 1000, name=each["name"], device=each["device"]
                )


def check_against_a_cut_trace(folder, events, *, steps=(), window=None):
    """Compare with the analyses of a trace that holds only the cut work."""
    raw = RawIdle(events)
    origin = min(round(each["ts"] * 1000) for each in events)
    devices = raw.devices()
    stretches = {device: counted(raw, device, steps=steps, window=window) for device in devices}
    job = open_job(folder("whole"), [events])
    asked = {"steps": steps}
    if window is not None:
        asked["window_ns"] = (window[0] - origin, window[1] - origin)
    kept = list(cut_events(raw, stretches))
    times = temporal_breakdown(job, **asked).ranks.set_index("device")
    length = {device: sum(b - a for a, b in stretches[device]) for device in devices}
    if not devices:
        assert not times.drop(columns="rank").any(axis=None)
        return
    for device in devices:
        assert times.loc[device, "kernel_time_ns"] == length[device]
        parts = ("idle", "compute", "graph", "non_compute")
        assert times.loc[device, [f"{part}_time_ns" for part in parts]].sum() == length[device]
    owners = idle_owners(job, **asked).devices.set_index("device")
    assert times.index.tolist() == devices
    assert owners["idle_ns"].to_dict() == times["idle_time_ns"].to_dict()
    if not kept:
        assert not times[["compute_time_ns", "non_compute_time_ns", "operations"]].any(axis=None)
        assert kernel_breakdown(job, **asked).every_kernel.empty
        return
    cut = open_job(folder("cut"), [kept])
    there = temporal_breakdown(cut).ranks.set_index("device")
    for name in ("compute_time_ns", "graph_time_ns", "non_compute_time_ns", "operations"):
        assert times[name][times["operations"] > 0].to_dict() == there[name].to_dict()
    both = overlap(job, **asked).ranks.set_index("device").loc[there.index]
    pd.testing.assert_frame_equal(both, overlap(cut).ranks.set_index("device"))
    here, there = kernel_breakdown(job, **asked), kernel_breakdown(cut)
    for name in ("types", "kernels", "every_kernel"):
        pd.testing.assert_frame_equal(getattr(here, name), getattr(there, name))


@given(calls_and_work(), st.integers(-10, 130), st.integers(1, 100))
def test_windows_against_a_cut_trace(tmp_path_factory, events, start, length):
    window = (1000 * start, 1000 * (start + length))
    check_against_a_cut_trace(tmp_path_factory.mktemp, events, window=window)


@st.composite
def steps_and_work(draw):
    """Steps one after the other, with work that is launched in any of them and runs into others."""
    bounds = np.cumsum(draw(st.lists(st.integers(5, 40), min_size=3, max_size=5)))
    marks = [step(3 + place, int(a), int(b - a)) for place, (a, b) in enumerate(pairwise(bounds))]
    return draw(st.permutations([*draw(calls_and_work()), *marks]))


@given(steps_and_work(), st.data())
def test_steps_against_a_cut_trace(tmp_path_factory, events, data):
    numbers = [number for number in RawIdle(events).numbers if number >= 0]
    steps = tuple(sorted(data.draw(st.sets(st.sampled_from(numbers), min_size=1))))
    window = data.draw(st.none() | st.just((20_000, 70_000)))
    check_against_a_cut_trace(tmp_path_factory.mktemp, events, steps=steps, window=window)


def three_steps(shift=0):
    """Steps of 100 µs with a kernel each, and a collective across the edge of the first two."""
    launches = [
        (10, "gemm", 20, 80),
        (60, "ncclDevKernel_AllReduce", 90, 40),
        (110, "gemm", 140, 50),
    ]
    events = [step(number, 100 * number + shift, 100) for number in (0, 1, 2)]
    for number, (launch, name, start, length) in enumerate(launches):
        events.append(call(launch + shift, 1, number))
        events.append(kernel(start + shift, length, name=name, correlation=number))
    return events


def test_what_crosses_an_edge_counts_with_its_part_inside(tmp_path):
    job = open_job(tmp_path, [three_steps()])
    first, second = (
        kernel_breakdown(job, steps=[number]).every_kernel.set_index("name") for number in (0, 1)
    )
    assert first["sum_ns"].to_dict() == {"gemm": 80_000, "ncclDevKernel_AllReduce": 10_000}
    assert second["sum_ns"].to_dict() == {"gemm": 50_000, "ncclDevKernel_AllReduce": 30_000}
    assert first["count"].to_dict() == second["count"].to_dict()
    exposed = [
        int(overlap(job, steps=[number]).ranks["exposed_communication_ns"].sum())
        for number in (0, 1)
    ]
    assert exposed == [0, 30_000]


def test_steps_add_up_to_all_of_them(tmp_path):
    job = open_job(tmp_path, [three_steps()])
    names = ["kernel_time_ns", "idle_time_ns", "compute_time_ns", "non_compute_time_ns"]
    of_each = [temporal_breakdown(job, steps=[number]).ranks[names] for number in (0, 1)]
    both = temporal_breakdown(job, steps=[1, 0]).ranks[names]
    pd.testing.assert_frame_equal(of_each[0] + of_each[1], both)


def test_a_window_holds_what_is_before_and_after_the_steps(tmp_path):
    """The last mark ends 10 µs after the last kernel of its step."""
    job = open_job(tmp_path, [three_steps()])
    steps, everything = (
        temporal_breakdown(job, **time).ranks.iloc[0]
        for time in ({"steps": [0, 1]}, {"window_ns": (-1, 10**9)})
    )
    assert everything["compute_time_ns"] == steps["compute_time_ns"]
    assert everything["idle_time_ns"] == steps["idle_time_ns"] + 10_000
    assert everything["kernel_time_ns"] == idle_owners(job).devices["window_ns"].item() == 200_000


def test_windows_count_on_the_common_clock(tmp_path):
    """The second rank begins 1 ms later; its own times count from there."""
    job = open_job(tmp_path, [three_steps(), three_steps(1000)])
    window = (1_020_000, 1_060_000)
    assert temporal_breakdown(job, window_ns=window).ranks["compute_time_ns"].tolist() == [
        0,
        40_000,
    ]


def test_a_rank_without_the_steps_counts_nothing(tmp_path):
    job = open_job(tmp_path, [three_steps(), [kernel(0, 10), host(0, 90, "op")]])
    table = temporal_breakdown(job, steps=[1]).ranks
    assert table["kernel_time_ns"].tolist() == [90_000, 0]
    assert table["operations"].tolist() == [2, 0]


@pytest.mark.parametrize("analyse", ANALYSES)
def test_everything_is_what_is_analysed_without(tmp_path, analyse):
    job = open_job(tmp_path, [three_steps()])
    whole, again = analyse(job), analyse(job, steps=[], window_ns=None)
    for name, table in vars(whole).items():
        if isinstance(table, pd.DataFrame):
            pd.testing.assert_frame_equal(table, getattr(again, name))
    assert whole.finding == again.finding


@pytest.mark.parametrize("analyse", ANALYSES)
def test_arguments(tmp_path, analyse):
    job = open_job(tmp_path, [three_steps(), [kernel(0, 10)]])
    with pytest.raises(
        UnknownStepError, match=r"^steps 2, 7 are not analysed .* are 0-1 \(the last"
    ):
        analyse(job, steps=[1, 2, 7])
    with pytest.raises(UnknownStepError, match=r"step 1 is not .* leave steps out"):
        analyse(job, [1], steps=[1])
    with pytest.raises(ParameterError, match=r"window_ns must be .*, got \(5, 5\)"):
        analyse(job, window_ns=(5, 5))
    with pytest.raises(ParameterError, match=r"window_ns must be .*, got 5"):
        analyse(job, window_ns=5)
    with pytest.raises(ParameterError, match=r"^steps must be a list .* such as \[1\], got 1$"):
        analyse(job, steps=1)
    with pytest.raises(ParameterError, match=r"^ranks must be a list .* such as \[0\], got '0'$"):
        analyse(job, "0")
    with pytest.raises(ParameterError, match=r"^ranks must be whole numbers, got 0\.5$"):
        analyse(job, [0.5])


@given(calls_and_work(), st.integers(-10, 130), st.integers(1, 100))
def test_idle_time_of_windows_adds_up(tmp_path_factory, events, start, length):
    """Parts that no length decides add up, and none of them is more than the idle time inside."""
    job = open_job(tmp_path_factory.mktemp("job"), [events])
    cuts = [-1_000_000, 1000 * start, 1000 * (start + length), 10_000_000]
    whole = idle_time(job, window_ns=(cuts[0], cuts[-1]))
    results = [idle_time(job, window_ns=window) for window in pairwise(cuts)]
    for name in ("stream_split", "device_split", "streams", "devices"):
        tables = [getattr(each, name) for each in results]
        for column in ("idle_time_ns", "span_ns"):
            keys = [key for key in ("device", "stream") if key in tables[0]]
            sums = sum(table.groupby(keys)[column].sum() for table in tables)
            assert sums.to_dict() == getattr(whole, name).groupby(keys)[column].sum().to_dict()
    for part in ("host", "launch_call", "inside_graph", "launch_not_recorded"):
        sums = [
            int(each.device_split.loc[each.device_split["split"] == part, "idle_time_ns"].sum())
            for each in (whole, *results)
        ]
        assert sums[0] == sum(sums[1:])


@given(calls_and_work(), st.integers(-10, 130), st.integers(1, 100))
def test_idle_time_of_a_window_by_hand(tmp_path_factory, events, start, length):
    """Each ns between the first and the last work in which none runs, of the window."""
    job = open_job(tmp_path_factory.mktemp("job"), [events])
    raw, window = RawIdle(events), (1000 * start, 1000 * (start + length))
    origin = min(round(each["ts"] * 1000) for each in events)
    result = idle_time(job, window_ns=(window[0] - origin, window[1] - origin)).devices
    idle_ns = result.groupby("device")["idle_time_ns"].sum()
    for device in raw.devices():
        analysed = [each for each in raw.analysed if each["device"] == device]
        first = max(min(each["start"] for each in analysed), window[0], raw.window[0])
        last = min(max(each["end"] for each in analysed), window[1], raw.window[1])
        times = range(first, last, 1000)
        running = [any(each["start"] <= time < each["end"] for each in analysed) for time in times]
        assert idle_ns[device] == 1000 * (len(times) - sum(running))


def test_findings_say_that_only_the_selected_time_is_empty(tmp_path):
    job = open_job(tmp_path, [three_steps()])
    later = {"window_ns": (10**9, 10**9 + 1)}
    assert temporal_breakdown(job, **later).finding == (
        "No GPU work was recorded on the selected ranks in the selected time."
    )
    assert overlap(job, **later).finding == (
        "No kernels were recorded on the selected ranks in the selected time."
    )
    assert overlap(job, window_ns=(20_000, 50_000)).finding.startswith(
        "No communication kernels were recognised on the selected ranks in the selected time."
    )
    assert kernel_breakdown(job, **later).finding == overlap(job, **later).finding
    for analyse in (idle_owners, idle_time):
        analyse(job, **later)


def test_a_kernel_across_the_start_of_a_window_is_one(tmp_path):
    """It is counted where the window begins, or where it begins in the window."""
    events = [
        host(0, 10, "aten::mm"),
        call(2, 2, 1),
        kernel(10, 500, correlation=1),
        *(host(20 + place, 0.5, "aten::relu") for place in range(400)),
    ]
    job = open_job(tmp_path, [events])
    for window_ns in ((5_000, 400_000), (50_000, 400_000)):
        row = operators(job, window_ns=window_ns).operators.set_index("operator").loc["aten::mm"]
        assert row["gpu_work"] == 1
        assert row["gpu_self_ns"] == window_ns[1] - max(window_ns[0], 10_000)
        assert launch_facts(job, window_ns=window_ns).kernels["count"].tolist() == [1]


def test_a_kernel_that_runs_when_the_first_step_begins_is_counted(tmp_path):
    events = [
        *(host(place, 0.5, "aten::relu") for place in range(100)),
        host(100, 10, "aten::mm"),
        call(102, 2, 1),
        kernel(110, 300, correlation=1),
        *(host(120 + place, 0.5, "aten::relu") for place in range(200)),
        *(step(number, 200 + 100 * number, 100) for number in range(4)),
    ]
    job = open_job(tmp_path, [events])
    for begin_ns in (0, 112_000):
        window_ns = (begin_ns, 390_000)
        row = operators(job, window_ns=window_ns).operators.set_index("operator").loc["aten::mm"]
        assert row[["gpu_work", "gpu_self_ns"]].tolist() == [1, 190_000]
        assert launch_facts(job, window_ns=window_ns).kernels["count"].tolist() == [1]


def test_a_window_without_events_is_empty(tmp_path):
    job = open_job(tmp_path, [[]])
    assert operators(job, window_ns=(0, 1000)).operators.empty
    assert launch_facts(job, window_ns=(0, 1000)).kernels.empty
    assert flame(job, 0, window_ns=(0, 1000)).total_ns == 0


def test_a_kernel_across_steps_is_one(tmp_path):
    """It is counted in the first of the chosen steps in which it runs."""
    events = [
        host(0, 3, "aten::all_reduce"),
        call(1, 1, 1),
        kernel(2, 55, correlation=1, name="ncclDevKernel_AllReduce", stream=20),
        *(step(number, 10 * number, 10) for number in range(9)),
    ]
    for number in range(9):
        at = 10 * number
        events += [host(at + 4, 3, "aten::mm"), call(at + 5, 1, number + 2)]
        events.append(kernel(at + 6, 3, correlation=number + 2))
    job = open_job(tmp_path, [events])
    for chosen, pieces in (((0, 1, 2), 1), ((1, 4, 5), 1), ((5, 6), 1), ((6, 7), 0)):
        table = operators(job, steps=chosen).operators.set_index("operator")
        found = table["gpu_work"].get("aten::all_reduce", 0)
        assert found == pieces, chosen
        assert table["gpu_work"]["aten::mm"] == len(chosen)
