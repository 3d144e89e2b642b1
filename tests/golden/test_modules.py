"""Modules on real traces: forward links, the reference values, and brute force over the JSON."""

from __future__ import annotations

from collections import Counter

import pytest

from hta_widgets.analyses.modules import modules
from hta_widgets.analyses.time.modules import forward_places
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.test_attribution import by_index, check
from tests.analyses.test_module_costs import check_costs
from tests.analyses.test_modules import check as check_modules
from tests.analyses.test_modules import check_sums, found_in
from tests.golden.reference import attributed, place_of
from tests.golden.test_idle_owners import TRACES
from tests.kineto_text import events_of
from tests.raw_idle import to_ns
from tests.raw_modules import read_modules


@pytest.fixture(scope="module", params=TRACES, ids=lambda trace: trace.partition("/")[0])
def trace(request):
    return request.param


@pytest.fixture(scope="module")
def job(trace):
    return open_trace(place_of(trace), progress=False)


@pytest.fixture(scope="module")
def raw(trace):
    return read_modules(place_of(trace))


def test_calls_by_brute_force(trace, job, raw):
    (rank,) = job.ranks
    check(job.rank(rank), raw)
    assert len(raw.forward_of) == attributed("modules")[trace]["backward_links"]


@pytest.mark.parametrize(("name", "count"), [("ns_resolution", 905), ("mi250_toy", 4)])
def test_arrows_of_the_profiler(name, count):
    """The profiler draws arrows of its own from forward to backward operators."""
    (trace,) = (each for each in TRACES if each.startswith(f"{name}/"))
    raw, begins, ends = read_modules(place_of(trace)), {}, {}
    for event in events_of(place_of(trace)):
        if event.get("cat") == "fwdbwd":
            (begins if event["ph"] == "s" else ends)[event["id"]] = event
    assert len(begins) == len(ends) == count
    index_of = {
        (each.pid, each.tid, each.start): each.index for each in raw.calls if each in raw.numbered
    }
    arrows = {at(ends[each], index_of): at(begins[each], index_of) for each in begins}
    job = open_trace(place_of(trace), progress=False)
    rank = job.rank(job.ranks[0])
    links = by_index(rank, forward_places(rank))
    assert arrows.items() <= links.items()


def at(arrow, index_of):
    """Index of the operator at which an arrow begins or ends: the inner one of several."""
    return index_of[arrow["pid"], arrow["tid"], to_ns(arrow["ts"])]


@pytest.fixture(scope="module")
def result(job):
    return modules(job, source="modules")


def test_equal_to_the_reference(trace, result):
    expected, tree, outside = attributed("modules")[trace], result.modules, result.outside
    assert tree["path"].nunique() == expected["paths"]
    named = tree.assign(path=tree["path"].str.replace(" › ", "/"))
    for column, ours in (("self_ns", "gpu_self_ns"), ("total_ns", "gpu_total_ns")):
        by_path = named.groupby("path")[ours].sum().to_dict()
        assert {path: by_path[path] for path in expected[column]} == expected[column]
    by_phase = outside.groupby("phase")["gpu_ns"].sum()
    by_phase = {phase: ns for phase, ns in by_phase.to_dict().items() if ns}
    assert by_phase.pop("unknown", 0) == expected["not_recorded_ns"]
    assert by_phase == expected["outside_by_phase"]
    assert tree["gpu_self_ns"].sum() + outside["gpu_ns"].sum() == expected["work_ns"]


def test_memory_by_brute_force(trace, job, result, raw):
    """Each allocation on a GPU belongs to the module of the innermost call around it."""
    check_costs(job, result)
    expected = Counter()
    for event in events_of(place_of(trace)):
        if event.get("name") == "[memory]" and event["args"]["Device Type"] > 0:
            expected[raw.node(raw.innermost(event))] += max(event["args"]["Bytes"], 0)
    expected = Counter({node: size for node, size in expected.items() if size})
    assert found_in(result, "bytes_allocated", "bytes_allocated") == expected


def test_brute_force_over_the_json(job, result, raw):
    check_modules(result, raw)
    check_sums(job, result, int(job.rank(job.ranks[0]).gpu_work.duration_ns.sum()))
