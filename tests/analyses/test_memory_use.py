"""Memory use of traces that are written by hand, and against brute force."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.memory_use import memory_use
from hta_widgets.analyses.memory_use.recorded import CPU
from hta_widgets.errors import UnknownRankError
from hta_widgets.trace.opening.open import open_trace
from tests.conftest import traces_or_skip
from tests.kineto_text import call, events_of, host, kernel, step, write
from tests.raw_memory import raw_memory
from tests.trace.test_memory_events import memory

GB = 10**9
MODULE = "python_function"
NO_MEMORY = (
    "No memory events were recorded on the selected ranks (profile_memory=True records them)."
)


def used(folder, *ranks, **asked):
    for number, events in enumerate(ranks):
        write(folder / f"rank-{number}.json", events)
    return memory_use(open_trace(folder, progress=False), **asked)


def with_totals(changes, *, start=0, reserved=2**40, device=(1, 0)):
    """Memory events of (µs, bytes, address) with their totals."""
    totals = accumulate((size for _, size, _ in changes), initial=start)
    next(totals)
    return [
        memory(ts, size, address=address, totals=(total, reserved), device=device, tid=100)
        for (ts, size, address), total in zip(changes, totals, strict=True)
    ]


def alive(result):
    table = result.alive_at_peak
    keys = zip(table["caller"], table["category"], strict=True)
    return dict(zip(keys, table["bytes"].tolist(), strict=True))


def test_curve_peak_and_what_is_alive(tmp_path):
    operators = [host(10, 10, "aten::mm"), host(11, 3, "aten::empty"), host(30, 10, "aten::add")]
    changes = [(12, 100, 1), (15, 50, 2), (16, -50, 2), (31, 200, 3), (35, -70, 9), (36, -100, 1)]
    result = used(tmp_path, [*operators, *with_totals(changes, start=1000, reserved=5000)])
    curve = result.curve
    assert curve["allocated_bytes"].tolist() == [1100, 1150, 1100, 1300, 1230, 1130]
    assert curve["time_ns"].tolist() == [2000, 5000, 6000, 21000, 25000, 26000]
    assert set(curve["reserved_bytes"]) == {5000}
    (peak,) = result.peak.to_dict("records")
    assert peak == {
        "rank": 0,
        "device_type": "CUDA",
        "device": 0,
        "bytes": 1300,
        "time_ns": 21000,
        "step": -1,
        "reserved_bytes": 5000,
        "fragmentation_bytes": 3700,
        "largest_fragmentation_bytes": 3900,
        "events": 6,
        "allocated_in_all_bytes": 350,
        "breaks": 0,
    }
    table = result.alive_at_peak
    assert table["bytes"].tolist() == [1000, 200, 100]
    assert table["blocks"].tolist() == [0, 1, 1]
    assert table["operator"].tolist() == ["", "aten::add", "aten::empty"]
    assert table["caller"].tolist() == ["", "aten::add", "aten::mm"]
    assert result.finding.startswith(
        "The memory of GPU 0 peaks at 1.3 kB of 5 kB reserved: 76.9 % was allocated before the "
        "recording"
    )


def test_a_free_of_another_size_is_of_a_block_from_before(tmp_path):
    changes = [(0, 100, 1), (1, -60, 1), (2, 500, 2)]
    result = used(tmp_path, [host(0, 9, "op"), *with_totals(changes, start=80)])
    assert result.alive_at_peak["bytes"].sum() == 620
    assert alive(result) == {("op", "other"): 600, ("", "before the recording"): 20}


@st.composite
def recordings(draw):
    """Allocations and frees of two devices, below operators of two threads."""
    events, free_addresses, opened = [], {}, {}
    totals = {device: draw(st.integers(0, 5)) * 512 for device in ((1, 0), (0, -1))}
    unknown = dict(totals)
    for place in range(draw(st.integers(1, 40))):
        device = draw(st.sampled_from(list(totals)))
        mine = opened.setdefault(device, {})
        choice = draw(st.integers(0, 4))
        if choice <= 1 and mine:
            address = draw(st.sampled_from(sorted(mine)))
            size = -mine.pop(address)
            free_addresses.setdefault(device, []).append(address)
        elif choice == 2 and unknown[device]:
            address, size = 10_000 + place, -512
            unknown[device] -= 512
        else:
            known = free_addresses.setdefault(device, [])
            address = known.pop() if known and draw(st.booleans()) else place + 1
            size = 512 * draw(st.integers(1, 4))
            mine[address] = size
        totals[device] += size
        event = memory(place // 2, size, address=address, device=device)
        event["args"] |= {"Total Allocated": totals[device], "Total Reserved": totals[device] + 7}
        events.append(event | {"tid": draw(st.sampled_from([100, 101]))})
    for number in range(draw(st.integers(0, 6))):
        start, length = draw(st.integers(0, 20)), draw(st.integers(1, 20))
        tid = draw(st.sampled_from([100, 101]))
        if not any(
            each["name"] != "[memory]" and each["tid"] == tid and overlaps(each, start, length)
            for each in events
        ):
            events.append(host(start, length, f"op{number}", tid=tid))
    return [*events, host(0, 1, "elsewhere", tid=7)]


def overlaps(other, start, length):
    """Whether two spans cross, or are the same."""
    first, last = other["ts"], other["ts"] + other["dur"]
    inside = first < start and start + length < last
    around = start < first and last < start + length
    return not (inside or around or last <= start or start + length <= first)


@given(recordings())
def test_brute_force(tmp_path_factory, events):
    folder = tmp_path_factory.mktemp("memory")
    result = used(folder, events)
    types = {0: "CPU", 1: "CUDA"}
    expected = raw_memory(events_of(folder / "rank-0.json"))
    assert len(result.peak) == len(expected)
    for (kind, device), raw in expected.items():
        peak, table = (
            each[(each["device_type"] == types[kind]) & (each["device"] == device)]
            for each in (result.peak, result.alive_at_peak)
        )
        assert raw.mismatch == peak["breaks"].iloc[0] == 0
        assert peak["bytes"].tolist() == [raw.peak_bytes]
        before = table["category"] == "before the recording"
        assert table["bytes"].sum() == raw.peak_bytes
        assert table["bytes"][before].sum() == raw.before_bytes
        assert table["blocks"].sum() == raw.blocks
        owners = table[~before].groupby("operator")["bytes"].sum().to_dict()
        assert Counter(owners) == raw.owners


def training(changes):
    """A step with a module, its backward pass, and an optimizer; then another operator."""
    backward = "autograd::engine::evaluate_function: MmBackward0"
    calls = [
        host(10, 30, "nn.Module: Net_0", cat=MODULE),
        host(11, 20, "aten::linear"),
        host(12, 10, "aten::mm"),
        host(50, 30, backward, tid=200),
        host(51, 20, "aten::mm", tid=200),
        host(100, 30, "Optimizer.step#SGD.step", cat="user_annotation"),
        host(101, 20, "aten::zeros_like"),
        host(102, 10, "aten::empty_like"),
        host(150, 30, "Optimizer.step#SGD.step", cat="user_annotation"),
        host(190, 10, "aten::last"),
    ]
    tids = [200 if 50 <= ts < 80 else 100 for ts, _, _ in changes]
    events = with_totals(changes)
    return [
        *calls,
        *(event | {"tid": tid} for event, tid in zip(events, tids, strict=True)),
    ]


@pytest.mark.parametrize(
    ("born", "freed", "caller", "category"),
    [
        (13, 20, "aten::mm", "temporary"),
        (13, 60, "aten::mm", "activation"),
        (13, 185, "aten::mm", "activation"),
        (13, None, "aten::mm", "activation"),
        (13, 45, "aten::mm", "other"),
        (52, 60, "aten::mm", "temporary"),
        (52, 79, "aten::mm", "other"),
        (52, 145, "aten::mm", "gradient"),
        (52, None, "aten::mm", "gradient"),
        (103, 120, "aten::zeros_like", "temporary"),
        (103, 125, "aten::zeros_like", "other"),
        (103, 155, "aten::zeros_like", "optimizer state"),
        (103, None, "aten::zeros_like", "optimizer state"),
        (45, 185, "", "other"),
    ],
)
def test_what_a_block_is_for(tmp_path, born, freed, caller, category):
    changes = [(born, 640, 1)] + ([] if freed is None else [(freed, -640, 1)])
    result = used(tmp_path, training(changes))
    assert result.alive_at_peak["category"].tolist() == [category]
    assert result.alive_at_peak["caller"].tolist() == [caller]


def test_modules_of_owners(tmp_path):
    frames = [
        host(0, 50, "nn.Module: Net_0", cat=MODULE),
        host(1, 40, "net.py(3): forward", cat=MODULE),
        host(2, 30, "nn.Module: Linear_1", cat=MODULE),
        host(3, 20, "aten::linear"),
    ]
    result = used(tmp_path, [*frames, *with_totals([(5, 10, 1), (45, 5, 2), (60, 1, 3)])])
    table = result.alive_at_peak
    assert dict(zip(table["bytes"], table["module"], strict=True)) == {
        10: "Net_0 › Linear_1",
        5: "Net_0",
        1: "",
    }


def leaking(steps, growth, *, temporary=0):
    """Steps of 100 µs, of which each keeps a block for ever."""
    changes, events = [], []
    for number in range(steps):
        at = 100 * number
        events += [step(number, at, 90), host(at + 10, 20, "aten::cat")]
        changes += [(at + 15, growth, 1000 + number)]
        if temporary:
            changes += [(at + 40, temporary, 1), (at + 70, -temporary, 1)]
    return [*events, *with_totals(changes, start=GB)]


def test_a_leak_is_named_with_its_owner(tmp_path):
    result = used(tmp_path, leaking(5, 20_000_000, temporary=10**8))
    assert result.steps["allocated_at_end_bytes"].tolist() == [
        GB + 20_000_000 * number for number in range(1, 6)
    ]
    assert result.steps["surviving_blocks"].tolist() == [1, 1, 1, 1, -1]
    assert result.steps["peak_bytes"].tolist() == [
        GB + 10**8 + 20_000_000 * number for number in range(1, 6)
    ]
    assert result.survivors[["caller", "blocks", "bytes"]].to_numpy().tolist() == [
        ["aten::cat", 4, 80_000_000]
    ]
    assert result.finding.endswith(
        "What is allocated on GPU 0 grows in each of 5 steps, by 20 MB a step; most of what stays "
        "was allocated by aten::cat (80 MB)."
    )


@pytest.mark.parametrize(("steps", "growth"), [(3, 20_000_000), (5, 900_000), (5, 0)])
def test_what_is_no_leak(tmp_path, steps, growth):
    events = leaking(steps, max(growth, 1), temporary=10**8)
    assert "grows" not in used(tmp_path, events).finding


def test_growth_that_stops_is_no_leak(tmp_path):
    changes = [(100 * number + 15, 20_000_000, 1 + number) for number in range(4)]
    events = [step(number, 100 * number, 90) for number in range(6)]
    result = used(tmp_path, [*events, host(0, 600, "op"), *with_totals(changes)])
    assert "grows" not in result.finding


def test_missing_events_begin_a_new_segment(tmp_path):
    events = with_totals([(0, 100, 1), (1, 50, 2), (2, 25, 3), (3, -25, 3), (4, 400, 4)])
    del events[1]
    result = used(tmp_path, [host(0, 9, "op"), *events])
    assert result.peak["breaks"].tolist() == [1]
    assert result.alive_at_peak["bytes"].sum() == result.peak["bytes"].iloc[0] == 550
    assert alive(result) == {("op", "other"): 400, ("", "before the recording"): 150}
    assert any(each.startswith("1 memory events do not continue") for each in result.notices)


@pytest.mark.parametrize("field", ["Bytes", "Total Allocated", "Total Reserved"])
@pytest.mark.parametrize("size", [2**63 - 1, -(2**63), 2**51])
def test_sizes_that_no_device_has(tmp_path, field, size):
    events = with_totals([(0, 100, 1), (1, 50, 2), (2, 25, 3)])
    events[1]["args"][field] = size
    result = used(tmp_path, [host(0, 9, "op"), *events])
    assert any(each.startswith("1 memory events of sizes") for each in result.notices)
    assert result.peak["events"].tolist() == [2]
    assert result.alive_at_peak["bytes"].sum() == result.peak["bytes"].iloc[0] == 175


def test_only_sizes_that_no_device_has(tmp_path):
    events = with_totals([(0, 2**52, 1)])
    result = used(tmp_path, [host(0, 9, "op"), *events])
    assert result.peak.empty
    assert any(each.startswith("1 memory events of sizes") for each in result.notices)


def test_memory_events_of_2021(tmp_path):
    """Neither totals nor addresses nor a category."""
    work = kernel(0, 1) | {"tid": "stream 7"}
    sizes = [(1, -300), (2, 100), (3, 500), (4, -100)]
    events = [memory(ts, size, address=None, cat=None) for ts, size in sizes]
    result = used(tmp_path, [work, *events])
    assert result.curve["allocated_bytes"].tolist() == [0, 100, 600, 500]
    assert set(result.curve["reserved_bytes"]) == {-1}
    assert result.alive_at_peak["category"].tolist() == ["unknown"]
    assert result.alive_at_peak["bytes"].tolist() == [600]
    assert result.finding == (
        "The memory of GPU 0 peaks 600 B above its lowest point (totals were not recorded)."
    )
    assert any("at least what is shown" in each for each in result.notices)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=5),
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9), st.booleans()), min_size=1),
    st.booleans(),
)
def test_what_is_said_to_be_older_is(tmp_path_factory, older, changes, has_totals):
    """Addresses are missing of some blocks, of which it is not known what a free is of."""
    alive = [(place, size, has_address, True) for place, (size, has_address) in enumerate(older)]
    events, history = [], []
    for ts, (which, size, has_address) in enumerate(changes):
        if which % 2 and alive:
            block = alive.pop(which % len(alive))
            change = -block[1]
        else:
            block = (len(older) + ts, size, has_address, False)
            alive.append(block)
            change = size
        total = sum(each[1] for each in alive)
        totals = (total, 1000) if has_totals else None
        address = 100 + block[0] if block[2] else None
        events.append(memory(ts, change, address=address, totals=totals, cat=None))
        history.append((total, sum(each[1] for each in alive if each[3])))
    folder = tmp_path_factory.mktemp("memory")
    result = used(folder, [host(0, 1, "op"), *events])
    total, truly_older = max(history, key=lambda each: each[0])
    sizes = result.alive_at_peak.groupby("category")["bytes"].sum()
    said = int(sizes.get("before the recording", 0))
    assert sizes.sum() == result.peak["bytes"].iloc[0]
    assert said <= truly_older
    if has_totals and all(each[2] for each in changes) and all(each[1] for each in older):
        assert (said, sizes.get("unknown", 0)) == (truly_older, 0)
    starts_at = result.curve["allocated_bytes"].iloc[0] - events[0]["args"]["Bytes"]
    if not starts_at:
        assert "before the recording" not in sizes
        assert "before the recording" not in result.finding


def test_devices_and_ranks(tmp_path):
    first = [*with_totals([(1, 10, 1)]), *with_totals([(2, 20, 1)], device=(0, -1))]
    second = [*with_totals([(1, 30, 1)], device=(6, 1)), *with_totals([(2, 5, 1)], device=(9, 0))]
    for events in (first, second):
        events.insert(0, host(0, 5, "op"))
    result = used(tmp_path, first, second)
    assert result.peak[["rank", "device_type", "device", "bytes"]].to_numpy().tolist() == [
        [0, "CPU", -1, 20],
        [0, "CUDA", 0, 10],
        [1, "HIP", 1, 30],
        [1, "type 9", 0, 5],
    ]
    assert "The memory of GPU 1 of rank 1 peaks at 30 B" in result.finding
    job = open_trace(tmp_path, progress=False)
    assert memory_use(job, device=CPU).peak["bytes"].tolist() == [20]
    assert memory_use(job, device=CPU).finding.startswith("The memory of the CPU peaks at 20 B")
    assert memory_use(job, [1]).peak["rank"].tolist() == [1, 1]
    with pytest.raises(UnknownRankError):
        memory_use(job, [5])


def test_without_memory_events_the_option_is_named_once(tmp_path):
    result = used(tmp_path, [call(0, 1, 1), kernel(2, 1, correlation=1)])
    assert result.finding == NO_MEMORY
    assert not any("profile_memory" in each for each in result.notices)
    assert result.curve.empty
    assert result.steps.empty
    (tmp_path / "rank-0.json").unlink()
    both = used(tmp_path, [host(0, 5, "op"), *with_totals([(1, 10, 1)])], [kernel(2, 1)])
    (said,) = [each for each in both.notices if "profile_memory" in each]
    assert said == "rank 1: no memory events were recorded (profile_memory=True records them)"


def test_the_source_is_not_asked_again(tmp_path):
    """Allocations without a category, as of 2021, are read with all others."""
    named = host(0, 5, "op") | {"tid": "worker"}
    path = write(tmp_path / "rank-0.json", [named, memory(1, 10, cat=None)])
    job = open_trace(path, progress=False)
    job.load(progress=False)
    path.unlink()
    result = memory_use(job)
    assert result.peak["bytes"].tolist() == [10]


def test_of_a_format_without_memory_events():
    path = traces_or_skip() / "nsys" / "healthy_1pct.sqlite"
    result = memory_use(open_trace(path, progress=False))
    assert result.finding == "No memory events were recorded on the selected ranks."
    assert "profile_memory" not in str(result.notices)
    assert any("has no memory events" in each for each in result.notices)
