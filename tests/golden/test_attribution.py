"""Who owns idle time, and what modules and operators cost, on real traces: by brute force.

Each trace is read once for all of it, which takes longer than the analyses.
"""

from __future__ import annotations

from collections import Counter

import pytest

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.modules import modules
from hta_widgets.analyses.operators import operators
from hta_widgets.analyses.time.modules import forward_places
from tests.analyses.test_attribution import by_index, check
from tests.analyses.test_module_costs import check_costs
from tests.analyses.test_modules import check as check_modules
from tests.analyses.test_modules import check_sums, found_in
from tests.analyses.test_operators import rows_of
from tests.golden.reference import attributed, opened, place_of
from tests.golden.test_idle_owners import TRACES
from tests.golden.test_operators import apart_from_graphs
from tests.kineto_text import events_of
from tests.raw_idle import to_ns
from tests.raw_operators import RawOperators

WITHOUT_REFERENCE_OF_IDLE_TIME = (
    "cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "cupti_counters/benchmark_result_924719_1679055439_trace.json.gz",
    "dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
    "no_rank/rank_not_found.json.gz",
)
ARROWS = {"ns_resolution": 905, "mi250_toy": 4}
"""Traces in which the profiler draws arrows of its own from forward to backward operators."""


@pytest.fixture(
    scope="module",
    params=(*TRACES, *WITHOUT_REFERENCE_OF_IDLE_TIME),
    ids=lambda trace: trace.partition("/")[0],
)
def trace(request):
    return request.param


@pytest.fixture(scope="module")
def events(trace):
    return events_of(place_of(trace))


@pytest.fixture(scope="module")
def raw(events):
    return RawOperators(events)


@pytest.fixture(scope="module")
def job(trace):
    return opened(place_of(trace))


@pytest.fixture(scope="module")
def tree(job):
    return modules(job, source="modules")


def test_owners_of_idle_time(job, raw):
    result, path_of = idle_owners(job), {-1: ()}
    for row in result.paths.to_dict("records"):
        path_of[row["path"]] = (*path_of[row["parent"]], row["name"])
    expected, ours = Counter(), Counter()
    for device in raw.devices():
        for row in raw.rows(device):
            path = row["path"] or ()
            expected[device, row["step"], row["part"], row["cause"], path] += row["ns"]
    for row in result.owners.to_dict("records"):
        key = (row["device"], row["step"], row["part"], row["cause"], path_of[row["path"]])
        ours[key] += row["idle_ns"]
    assert ours == expected


def test_operators(job, raw):
    table, _ = apart_from_graphs(operators(job).operators)
    rows = rows_of(table, "operator", "phase")
    assert rows == raw.rows_by(lambda each: each.name, raw.phase)


def test_module_and_phase_of_each_call(trace, job, raw):
    (rank,) = job.ranks
    check(job.rank(rank), raw)
    assert len(raw.forward_of) == attributed("modules")[trace]["backward_links"]


def test_arrows_of_the_profiler(trace, job, raw, events):
    begins, ends = {}, {}
    for event in events:
        if event.get("cat") == "fwdbwd":
            (begins if event["ph"] == "s" else ends)[event["id"]] = event
    name = trace.partition("/")[0]
    assert len(begins) == len(ends)
    assert name not in ARROWS or len(begins) == ARROWS[name]
    index_of = {
        (each.pid, each.tid, each.start): each.index for each in raw.calls if each in raw.numbered
    }
    arrows = {at(ends[each], index_of): at(begins[each], index_of) for each in begins}
    rank = job.rank(job.ranks[0])
    assert arrows.items() <= by_index(rank, forward_places(rank)).items()


def at(arrow, index_of):
    """Index of the operator at which an arrow begins or ends: the inner one of several."""
    return index_of[arrow["pid"], arrow["tid"], to_ns(arrow["ts"])]


def test_memory_of_modules(job, tree, raw, events):
    """Each allocation on a GPU belongs to the module of the innermost call around it."""
    check_costs(job, tree)
    expected = Counter()
    for event in events:
        if event.get("name") == "[memory]" and event["args"]["Device Type"] > 0:
            expected[raw.node(raw.innermost(event))] += max(event["args"]["Bytes"], 0)
    expected = Counter({node: size for node, size in expected.items() if size})
    assert found_in(tree, "bytes_allocated", "bytes_allocated") == expected


def test_times_of_modules(job, tree, raw):
    check_modules(tree, raw)
    check_sums(job, tree, int(job.rank(job.ranks[0]).gpu_work.duration_ns.sum()))
