"""Duration tails against brute force, and where they are undefined."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.duration_tails import ALL_RANKS, duration_tails, events_needed
from hta_widgets.analyses.time.duration_categories import SortedDurations
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.trace.loaders.event_blocks import EventBlocks
from hta_widgets.trace.model.events import Kind
from tests.analyses.generated_jobs import drawn_launches, launched_jobs, open_job
from tests.analyses.lane_jobs import job_of
from tests.kineto_text import call, host, kernel, step

NAMES = {
    "kernel": ("kernel", "device"),
    "gpu_memcpy": ("memcpy", "device"),
    "gpu_memset": ("memset", "device"),
    "cuda_runtime": ("runtime", "host"),
    "cuda_driver": ("driver", "host"),
}
HOST_CALLS = ["cuda_runtime", "cuda_driver"]
ORDER = [name for name, _ in NAMES.values()]
SIDES = dict(NAMES.values())

jobs = st.one_of(
    launched_jobs, st.lists(drawn_launches().map(lambda drawn: drawn[1]), min_size=1, max_size=2)
)


def by_category(events):
    """Durations (ns) by category, in the order of the tables."""
    found = defaultdict(list)
    for event in events:
        if event["cat"] in NAMES:
            found[NAMES[event["cat"]][0]].append(1000 * event["dur"])
    return {name: found[name] for name in ORDER if name in found}


def nested_ns(events, category):
    """Time of the API calls of a category within another API call of their thread."""
    calls = [each for each in events if each["cat"] in HOST_CALLS]
    return 1000 * sum(
        inner["dur"]
        for place, inner in enumerate(calls)
        if NAMES[inner["cat"]][0] == category
        and any(
            (outer["pid"], outer["tid"]) == (inner["pid"], inner["tid"])
            and outer["ts"] <= inner["ts"]
            and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
            and (lasts(outer) != lasts(inner) or outranks(outer, at, inner, place))
            for at, outer in enumerate(calls)
        )
    )


def lasts(call):
    return call["ts"], call["dur"]


def outranks(outer, at, inner, place):
    """Of two calls that begin and end together, which one is outside."""
    return (HOST_CALLS.index(outer["cat"]), at) < (HOST_CALLS.index(inner["cat"]), place)


def share(part, whole):
    return 100 * part / whole if whole else math.nan


def groups(ranks):
    """Name of a group of ranks, and lists of events of each rank in it."""
    return [(ALL_RANKS, ranks), *((rank, [events]) for rank, events in enumerate(ranks))]


def category_rows(ranks):
    for rank, lists in groups(ranks):
        durations = by_category([event for events in lists for event in events])
        totals = {name: sum(each) for name, each in durations.items()}
        for name, each in durations.items():
            side = sum(total for other, total in totals.items() if SIDES[other] == SIDES[name])
            nested = sum(nested_ns(events, name) for events in lists)
            yield (
                *(rank, name, SIDES[name], len(each), totals[name], max(each), min(each)),
                *(totals[name] / len(each), share(totals[name], sum(totals.values()))),
                *(share(totals[name], side), totals[name] - nested),
            )


def tail_rows(ranks, percents):
    for rank, lists in groups(ranks):
        for name, each in by_category([event for events in lists for event in events]).items():
            for percent in percents:
                k = math.floor(len(each) * Fraction(str(percent)) / 100)
                longest = sorted(each, reverse=True)[:k]
                note = (
                    ""
                    if k
                    else f"needs at least {math.ceil(100 / Fraction(str(percent))):,} events"
                )
                yield (
                    *(rank, name, percent, k),
                    share(sum(longest), sum(each)) if k else math.nan,
                    sum(longest) / k if k else math.nan,
                    longest[-1] if k else None,
                    note,
                )


@given(jobs)
def test_categories_against_brute_force(tmp_path_factory, ranks):
    result = duration_tails(open_job(tmp_path_factory.mktemp("job"), ranks))
    expected = [pytest.approx(row, nan_ok=True) for row in category_rows(ranks)]
    assert list(result.categories.itertuples(index=False, name=None)) == expected


@given(jobs, st.integers(1, 1000))
def test_tails_against_brute_force(tmp_path_factory, ranks, tenths):
    result = duration_tails(open_job(tmp_path_factory.mktemp("job"), ranks), percent=tenths / 10)
    assert result.percent == tenths / 10
    expected = list(tail_rows(ranks, sorted({1.0, 5.0, 10.0, tenths / 10})))
    assert len(result.tails) == len(expected)
    for ours, row in zip(result.tails.to_dict("records"), expected, strict=True):
        values = list(ours.values())
        assert (*values[:4], values[7]) == (*row[:4], row[7])
        assert values[4:6] == pytest.approx(row[4:6], nan_ok=True)
        assert (None if pd.isna(values[6]) else values[6]) == row[6]


@given(jobs)
def test_curves_against_brute_force(tmp_path_factory, ranks):
    result = duration_tails(open_job(tmp_path_factory.mktemp("job"), ranks))
    durations = by_category([event for events in ranks for event in events])
    assert result.curves["category"].unique().tolist() == list(durations)
    for name, each in durations.items():
        curve = result.curves[result.curves["category"] == name]
        longest_first = sorted(each, reverse=True)
        assert curve["events_percent"].is_monotonic_increasing
        assert curve["events_percent"].iloc[-1] == 100
        for events, time in zip(curve["events_percent"], curve["time_percent"], strict=True):
            k = round(events * len(each) / 100)
            assert time == pytest.approx(share(sum(longest_first[:k]), sum(each)), nan_ok=True)


@given(st.lists(st.lists(st.integers(0, 6), max_size=30), min_size=1, max_size=3))
def test_durations_merge(parts):
    merged = SortedDurations.merged(SortedDurations.of(np.array(part, int)) for part in parts)
    every = sorted(sum(parts, []), reverse=True)  # noqa: RUF017
    assert (merged.count, merged.total_ns) == (len(every), sum(every))
    for k in range(1, len(every) + 1):
        time_ns, shortest_ns = merged.longest(np.array([k]))
        assert (time_ns.item(), shortest_ns.item()) == (sum(every[:k]), every[k - 1])


def test_numbers_of_events_are_those_of_the_seed():
    """The seed takes ``int(n * p)``, a float; ours is exact, and the same."""
    for number in range(1, 20_000):
        for tenths, share_of_events in ((10, 0.01), (50, 0.05), (100, 0.1)):
            assert number * tenths // 1000 == int(number * share_of_events)


def job_lasting(number, kind=Kind.KERNEL):
    """A job of a number of kernels, which last 1, 2, 3 ... µs."""
    blocks = EventBlocks()
    duration_ns = 1000 * np.arange(1, number + 1)
    blocks.add(kind, np.cumsum(duration_ns), duration_ns, ["work"] * number, device=0, stream=7)
    return job_of(blocks)


def test_too_few_events_are_undefined_and_said():
    table = duration_tails(job_lasting(99), [0]).tails
    one, five, _ = table[table["rank"] == 0].to_dict("records")
    assert (one["k"], one["note"]) == (0, "needs at least 100 events")
    assert math.isnan(one["share_percent"])
    assert math.isnan(one["mean_ns"])
    assert pd.isna(one["threshold_ns"])
    assert (five["k"], five["mean_ns"], five["threshold_ns"], five["note"]) == (
        4,
        97_500,
        96_000,
        "",
    )


def test_the_finding_names_the_longest_events():
    assert duration_tails(job_lasting(100), percent=1).finding == (
        "The longest 1 % of the kernels (1 of 100) took 1.98 % of their time, 100 µs on average "
        "and 100 µs at most."
    )
    assert duration_tails(job_lasting(9), percent=10).finding == (
        "No category has the 10 events needed for 10 % to be at least one event."
    )


def test_the_finding_is_about_the_side_asked_for(tmp_path):
    events = [call(0, 100, 1), *(call(200 + number, 1, 2 + number) for number in range(9))]
    events += [kernel(400, 100), *(kernel(600 + 5 * number, 5) for number in range(9))]
    job = open_job(tmp_path, [events])
    of_both, of_device, of_host = (
        duration_tails(job, percent=10, side=side).finding for side in ("all", "device", "host")
    )
    assert of_both == of_host
    assert of_host.startswith("The longest 10 % of the runtime API calls (1 of 10) took 91.7 % of")
    assert of_device.startswith("The longest 10 % of the kernels (1 of 10) took 69 % of")
    on_device = open_job(tmp_path, [[kernel(0, 1)]])
    assert duration_tails(on_device, side="host").finding == (
        "No CUDA API calls were recorded on the selected ranks."
    )
    with pytest.raises(
        ParameterError, match="side must be one of 'all', 'device', 'host', got 'x'"
    ):
        duration_tails(job, side="x")


def test_whole_graphs_are_device_time():
    (row,) = duration_tails(job_lasting(3, Kind.GRAPH)).categories[1:].to_dict("records")
    assert (row["category"], row["side"], row["total_ns"]) == ("graph", "device", 6000)


def test_events_needed():
    assert [events_needed(each) for each in (0.1, 0.3, 1, 3, 99.9, 100)] == [
        1000,
        334,
        100,
        34,
        2,
        1,
    ]


def test_nested_driver_calls_are_said(tmp_path):
    events = [
        call(0, 10, 1),
        call(2, 5, 1, name="cuLaunchKernel", cat="cuda_driver"),
        call(3, 9, 2, name="cuModuleLoad", cat="cuda_driver"),
        call(2, 5, 3, name="cuLaunchKernel", cat="cuda_driver", tid=101),
    ]
    result = duration_tails(open_job(tmp_path, [events]))
    table = result.categories.set_index(["rank", "category"])
    assert table.loc[(0, "driver"), ["total_ns", "not_nested_ns"]].tolist() == [19_000, 14_000]
    assert table.loc[(0, "runtime"), ["total_ns", "not_nested_ns"]].tolist() == [10_000, 10_000]
    assert result.notices[-1] == (
        "1 of 4 runtime and driver calls ran inside another one, so total_ns and all shares count "
        "their time more than once; not_nested_ns does not"
    )


def test_the_step_filter_applies(tmp_path):
    events = [
        *(step(1, 0, 10), step(2, 20, 10)),
        *(call(1, 2, 1), kernel(4, 30, correlation=1)),
        *(call(21, 2, 2), kernel(24, 60, correlation=2)),
    ]
    table = duration_tails(open_job(tmp_path, [events]), [0]).categories
    assert table[table["rank"] == 0]["total_ns"].tolist() == [30_000, 2_000]


def test_nothing_recorded(tmp_path):
    result = duration_tails(open_job(tmp_path, [[host(0, 1, "op")]]))
    assert len(result.categories) == len(result.tails) == len(result.curves) == 0
    expected = "No GPU operations or CUDA API calls were recorded on the selected ranks."
    assert result.finding == expected


def test_results_do_not_share_their_tables():
    job = job_lasting(20)
    table = duration_tails(job).categories
    table.loc[0, "count"] = 7
    assert duration_tails(job).categories["count"].tolist() == [20, 20]


@pytest.mark.parametrize("cat", ["cuda_runtime", "cuda_driver"])
def test_calls_of_one_kind_nest_too(tmp_path, cat):
    events = [
        call(0, 10, 1, name="hipMemcpy", cat=cat),
        call(1, 8, 2, name="hipMemcpyAsync", cat=cat),
        call(2, 3, 3, name="hipLaunchKernel", cat=cat),
        call(9, 3, 4, name="hipStreamSynchronize", cat=cat),
    ]
    result = duration_tails(open_job(tmp_path, [events]), [0])
    (row,) = result.categories[result.categories["rank"] == 0].to_dict("records")
    assert (row["total_ns"], row["not_nested_ns"]) == (24_000, 13_000)
    assert result.notices[-1].startswith("2 of 4 runtime and driver calls ran inside another one")


@pytest.mark.parametrize("percent", [0, 0.04, 100.06, -1, math.nan, math.inf])
def test_percentages_out_of_range(percent):
    with pytest.raises(ParameterError, match=r"between 0\.1 and 100"):
        duration_tails(job_lasting(3), percent=percent)


def test_unknown_ranks():
    with pytest.raises(UnknownRankError):
        duration_tails(job_lasting(3), [1])


@pytest.mark.parametrize(
    ("begin", "length", "is_nested"),
    [(10, 10, True), (10, 1, True), (19, 1, True), (9, 5, False), (15, 6, False), (20, 1, False)],
)
def test_nested_is_what_begins_and_ends_within_a_runtime_call(tmp_path, begin, length, is_nested):
    events = [
        call(10, 10, 1),
        call(12, 3, 2),
        call(begin, length, 3, name="cuLaunchKernel", cat="cuda_driver"),
    ]
    table = duration_tails(open_job(tmp_path, [events])).categories
    driver = table.set_index(["rank", "category"]).loc[(0, "driver")]
    assert driver["not_nested_ns"] == (0 if is_nested else driver["total_ns"])
