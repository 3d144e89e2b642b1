"""The numbers that the CUPTI study (seed 003) prints, from the same formulas.

Its tables are not public. The durations here are made up to have the printed numbers of events,
sums, extremes and sums of the longest 1, 5 and 10 %; the launches and the kernels are the printed
rows.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pytest

from hta_widgets.analyses.duration_tails import duration_tails
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.launch_overlap import KernelLaunches, launch_overlap
from hta_widgets.trace.loaders.event_blocks import EventBlocks
from hta_widgets.trace.loaders.formats import CUPTI_CSV
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.lane_jobs import job_of


class Printed(NamedTuple):
    """What the study prints of one category; times in µs."""

    number: int
    total: float
    longest: float
    shortest: float
    ratios: tuple[float, ...] = ()
    means: tuple[float, ...] = ()


PRINTED = {
    Kind.RUNTIME: Printed(
        2162,
        161461.895,
        41915.095,
        0.173,
        (0.9349850006405536, 0.9814047085227136, 0.9862139299182633),
        (7188.783333333334, 1467.2172592592594, 737.2035648148149),
    ),
    Kind.KERNEL: Printed(
        105,
        2820.512,
        691.072,
        2.24,
        (0.24501650764116584, 0.40397771752079054, 0.5405773845316028),
        (691.072, 227.88479999999998, 152.4705),
    ),
    Kind.DRIVER: Printed(
        2967,
        28414.011,
        2746.107,
        0.157,
        (0.9636570493338655, 0.9714626351063212, 0.9745723333463903),
        (944.184896551724, 186.50777027027024, 93.55239527027027),
    ),
    Kind.MEMCPY: Printed(26, 272.896, 47.072, 1.0),
    Kind.MEMSET: Printed(4, 8.672, 4.0, 1.0),
}
SHARES = {
    "kernel": 1.461571891417708,
    "runtime": 83.6685563709842,
    "driver": 14.72396493971079,
    "memcpy": 0.14141302106863116,
    "memset": 0.004493776818667804,
}
NUMBERS = {"runtime": [21, 108, 216], "kernel": [1, 5, 10], "driver": [29, 148, 296]}


def spread(total, number):
    """Integers, as equal as can be, longest first."""
    least, more = divmod(total, number)
    return [least + (place < more) for place in range(number)]


def durations_ns(kind):
    """Durations with the printed sums of the longest."""
    printed = PRINTED[kind]
    total, longest, shortest = (
        round(1000 * each) for each in (printed.total, printed.longest, printed.shortest)
    )
    found = [longest]
    for k, ratio in zip(NUMBERS.get(kind.name.lower(), []), printed.ratios, strict=True):
        if k > len(found):
            found += spread(round(ratio * total) - sum(found), k - len(found))
    found += [*spread(total - sum(found) - shortest, printed.number - len(found) - 1), shortest]
    assert found == sorted(found, reverse=True)
    assert (sum(found), len(found)) == (total, printed.number)
    return np.array(found)


@pytest.fixture(scope="module")
def durations():
    blocks = EventBlocks()
    for kind in PRINTED:
        duration_ns = durations_ns(kind)
        start_ns = np.cumsum(duration_ns) - duration_ns
        blocks.add(kind, start_ns, duration_ns, [""] * duration_ns.size, pid=1, tid=int(kind))
    return job_of(blocks, CUPTI_CSV)


def test_shares_of_the_categories(durations):
    table = duration_tails(durations, [0]).categories
    table = table[table["rank"] == 0].set_index("category")
    assert table["share_percent"].to_dict() == pytest.approx(SHARES, rel=1e-9)
    of_side = table["share_of_side_percent"].groupby(table["side"]).sum()
    assert of_side.tolist() == pytest.approx([100, 100])
    assert table["max_ns"]["runtime"] == 41_915_095
    assert table["min_ns"]["driver"] == 157


@pytest.mark.parametrize("kind", [Kind.RUNTIME, Kind.KERNEL, Kind.DRIVER])
def test_tails(durations, kind):
    name, printed = kind.name.lower(), PRINTED[kind]
    table = duration_tails(durations).tails
    table = table[(table["rank"] == 0) & (table["category"] == name)]
    assert table["percent"].tolist() == [1, 5, 10]
    assert table["k"].tolist() == NUMBERS[name]
    ratios, means_us = table["share_percent"] / 100, table["mean_ns"] / 1000
    assert ratios.tolist() == pytest.approx(printed.ratios, rel=1e-9)
    assert means_us.tolist() == pytest.approx(printed.means, rel=1e-9)


def test_the_printed_ratios_of_means(durations):
    """``compare_analysis(df_runtime, df_kernel)``: each with its own number of events."""
    table = duration_tails(durations).tails
    table = table[table["rank"] == 0]
    means = table.pivot_table(index="percent", columns="category", values="mean_ns")
    runtime, kernels = (np.array(PRINTED[kind].means) for kind in (Kind.RUNTIME, Kind.KERNEL))
    assert (means["runtime"] / means["kernel"]).tolist() == pytest.approx(runtime / kernels)


def test_few_copies_are_undefined_instead_of_0(durations):
    table = duration_tails(durations).tails
    table = table[(table["rank"] == 0) & (table["category"] == "memset")]
    assert table["k"].tolist() == [0, 0, 0]
    assert table["share_percent"].isna().all()
    assert table["note"].tolist() == [f"needs at least {n} events" for n in (100, 20, 10)]


WINOGRAD = "_5x_cudnn_ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"
ADD = "CUDAFunctor_add"
NHWC = "nchwToNhwcKernel"
STAGE3 = "tilesize128x128x16_stage3"
STAGE2 = "tilesize256x128x32_stage2"
INDEXED = "indexed_tilesize128x64x32_stage4"
PLAIN, EXTENDED = "cudaLaunchKernel", "cudaLaunchKernelExC_v11060"
LAUNCHES = {
    7: (2098, 97035.25, 97078.25, 97079.0, 97219.75, WINOGRAD, PLAIN),
    8: (2104, 97168.5, 97181.25, 97220.5, 97266.5, ADD, PLAIN),
    9: (2109, 97262.5, 97271.0, 97272.0, 97274.75, "CUDAFunctorOnSelf_add", PLAIN),
    20: (2436, 109446.5, 109466.25, 109466.0, 109487.75, NHWC, PLAIN),
    21: (2438, 109468.5, 109475.0, 109488.5, 109494.25, NHWC, PLAIN),
    22: (2442, 109496.5, 111098.75, 111098.25, 111197.0, STAGE3, EXTENDED),
    23: (2449, 111184.5, 111195.5, 111197.75, 111218.0, ADD, PLAIN),
    28: (2608, 113579.25, 113597.25, 113597.0, 113602.5, NHWC, PLAIN),
    29: (2610, 113599.75, 113606.0, 113607.5, 113615.25, NHWC, PLAIN),
    30: (2613, 113614.25, 113621.0, 113622.25, 113674.25, STAGE3, EXTENDED),
}
"""Row of the table printed in cell 34: correlation, runtime_st, runtime_ed, kernel_st, kernel_ed
(µs), kernel, call."""

OVERLAPS_US = {(7, 8): 51.25, (8, 9): 4.0, (20, 21): 19.25, (22, 23): 12.5, (28, 29): 2.75}
OVERLAPS_US |= {(29, 30): 1.0}


@pytest.fixture(params=[{"resolution_ns": 250}, {}], ids=["resolution", "no resolution"])
def launches(request):
    blocks = EventBlocks()
    for correlation, *times, kernel, name in LAUNCHES.values():
        call_ns, return_ns, start_ns, end_ns = (round(1000 * each) for each in times)
        blocks.add(
            *(Kind.RUNTIME, np.array([call_ns]), np.array([return_ns - call_ns]), [name]),
            pid=1,
            tid=1,
            correlation=correlation,
        )
        blocks.add(
            *(Kind.KERNEL, np.array([start_ns]), np.array([end_ns - start_ns]), [kernel]),
            device=0,
            stream=7,
            correlation=correlation,
        )
    return job_of(blocks, CUPTI_CSV, **request.param)


def test_pairs_that_overlap(launches):
    """In the printed rows, adjacent pairs are all there is; the launch in row 22 overlaps none."""
    found = KernelLaunches.of(launches.rank(0))
    overlap_ns = found.last_end_ns[:-1] - found.events.start_ns[found.calls][1:]
    rows = list(LAUNCHES)
    pairs = {
        (rows[place], rows[place + 1]): ns / 1000
        for place, ns in enumerate(overlap_ns.tolist())
        if ns > 0
    }
    assert pairs == OVERLAPS_US
    (thread,) = launch_overlap(launches).threads.to_dict("records")
    assert (thread["launches"], thread["overlapping"]) == (10, len(OVERLAPS_US))


def test_hidden_launch_time(launches):
    kernels = [(start, end) for _, _, _, start, end, *_ in LAUNCHES.values()]
    hidden = sum(
        max(0, min(back, end) - max(begin, start))
        for _, begin, back, *_ in LAUNCHES.values()
        for start, end in kernels
    )
    (thread,) = launch_overlap(launches).threads.to_dict("records")
    assert thread["hidden_ns"] == 1000 * hidden
    assert thread["call_time_ns"] == 1000 * sum(
        back - begin for _, begin, back, *_ in LAUNCHES.values()
    )


def test_launches_that_seem_to_start_before_they_return(launches):
    """By 0.25 to 0.5 µs, which float64 cannot tell at 1.7e15 µs."""
    table = launch_overlap(launches).launch_apis.set_index("launch_api")
    known = "resolution_ns" in launches.rank(0).trace.metadata
    assert table["started_before_return"].sum() == (0 if known else 3)
    assert table.loc["cudaLaunchKernelExC", ["launches", "kernels"]].tolist() == [2, 2]


SPECIAL = (
    *((STAGE2, 60.512), (STAGE3, 98.688), (STAGE3, 52.128), (STAGE3, 81.952), (STAGE3, 81.12)),
    *((INDEXED, 38.304), (INDEXED, 37.952), (INDEXED, 38.016)),
)
"""The kernels of cell 35, which are launched through cudaLaunchKernelExC; durations in µs."""


@pytest.fixture(scope="module")
def special():
    """The special kernels, one of which cudaLaunchKernel launches, too."""
    blocks = EventBlocks()
    for place, (name, us) in enumerate([*SPECIAL, (INDEXED, 40.0)]):
        start = np.array([1_000_000 * place])
        api = EXTENDED if place < len(SPECIAL) else PLAIN
        blocks.add(Kind.RUNTIME, start, start * 0 + 9, [api], pid=1, tid=1, correlation=place)
        duration_ns = np.array([round(1000 * us)])
        blocks.add(Kind.KERNEL, start + 99, duration_ns, [name], device=0, correlation=place)
    return job_of(blocks, CUPTI_CSV)


def test_kernels_by_launching_call(special):
    """Joined by correlation: 8 kernels of 3 names, though 9 kernels have one of these names."""
    table = launch_overlap(special).apis_by_kernel
    extended = table[table["launch_api"] == "cudaLaunchKernelExC"]
    counts = dict(zip(extended["kernel"], extended["kernels"], strict=True))
    assert counts == {STAGE2: 1, STAGE3: 4, INDEXED: 3}
    assert table["kernels"].sum() == 9


def test_kernel_table(special):
    table = kernel_breakdown(special, num_kernels=200).kernels
    row = table.set_index("name").loc[STAGE3]
    assert (row["sum_ns"], row["max_ns"], row["min_ns"]) == (313_888, 98_688, 52_128)
    assert row["mean_ns"] == 78_472
    assert row["stddev_ns"] / 1000 == pytest.approx(19.337488, abs=1e-6)
    assert table.set_index("name")["stddev_ns"][STAGE2] == 0


CONVERTED = ("dlrm_2rank", "compare_control", "h100_bert")
AFTER_THE_LAST_STEP = {("compare_control", "runtime"): 1}
"""Events that the step filter leaves out, which the expected numbers count."""


@pytest.fixture(scope="module", params=CONVERTED)
def converted(request, real_traces):
    """A job in its original form, and the numbers that every form must give, by rank."""
    name = request.param
    job = open_trace(real_traces / "kineto" / name, include_last_profiler_step=True, progress=False)
    expected = json.loads((real_traces / "converted" / name / "expected.json").read_text())
    return name, job, dict(zip(job.ranks, (expected[key] for key in sorted(expected)), strict=True))


def test_launches_while_a_kernel_runs(converted):
    _, job, expected = converted
    result = launch_overlap(job)
    by_rank = result.ranks.set_index("rank")
    for rank, numbers in expected.items():
        assert by_rank["overlapping"][rank] == numbers["launch_while_kernel_running"]
        apis = result.launch_apis[result.launch_apis["rank"] == rank]
        launched = dict(zip(apis["launch_api"], apis["kernels"], strict=True))
        assert launched == numbers["launched_by"]
        assert apis["started_before_return"].sum() == numbers["launch_before_return"]
        signed = KernelLaunches.of(job.rank(rank)).delay_ns
        assert signed.sum() == numbers["launch_delay_sum_ns"]


def test_categories_and_tails_of_converted_jobs(converted):
    name, job, expected = converted
    result = duration_tails(job)
    categories = result.categories.set_index(["rank", "category"])
    tails = result.tails.set_index(["rank", "category", "percent"])
    for rank, numbers in expected.items():
        for category in ("kernel", "memcpy", "memset", "runtime", "driver"):
            of_category = numbers[category]
            if (name, category) in AFTER_THE_LAST_STEP:
                of_category = of_category | {"n": of_category["n"] - 1}
                assert categories.loc[(rank, category), "count"] == of_category["n"]
                continue
            if not of_category["n"]:
                assert (rank, category) not in categories.index
                continue
            row = categories.loc[(rank, category), ["count", "total_ns", "max_ns", "min_ns"]]
            assert row.tolist() == [of_category[key] for key in ("n", "sum", "max", "min")]
            for percent in (1, 5, 10):
                tail, sums = tails.loc[(rank, category, percent)], of_category[f"p{percent}"]
                assert tail["k"] == sums["k"]
                if sums["k"]:
                    assert round(tail["mean_ns"] * tail["k"]) == sums["sum"]
