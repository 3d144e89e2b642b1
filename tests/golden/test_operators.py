"""Operators on real traces: the reference values, and sums."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.operators import operators
from hta_widgets.trace.ranks.replayed_calls import GRAPH_CALL
from tests.analyses.test_operators import check_sums
from tests.conftest import REAL_TRACES
from tests.golden.reference import NO_ATTRIBUTION, attribution, opened, place_of

pytestmark = pytest.mark.skipif(not attribution("operators"), reason=NO_ATTRIBUTION)


@pytest.fixture(
    scope="module", params=attribution("operators") or [None], ids=lambda name: str(name)[:24]
)
def trace(request):
    return request.param


@pytest.fixture(scope="module")
def job(trace):
    return opened(place_of(trace))


def apart_from_graphs(table):
    """The rows of recorded operators, and GPU time of those that stand for graphs."""
    is_graph = table["operator"].str.fullmatch(GRAPH_CALL)
    return table[~is_graph], table["gpu_self_ns"][is_graph].sum()


def test_equal_to_the_reference(trace, job):
    expected, result = attribution("operators")[trace], operators(job)
    (totals,) = result.ranks.to_dict("records")
    table, in_graphs_ns = apart_from_graphs(result.operators)
    assert table["operator"].nunique() == expected["names"]
    for name in ("calls", "cpu_self_ns"):
        assert table[name].sum() == expected[name]
    assert totals["gpu_ns"] == expected["gpu_ns"]
    assert totals["outside_operators_ns"] + in_graphs_ns == expected["outside_ns"]
    assert totals["launch_not_recorded_ns"] == expected["not_recorded_ns"]
    sums = table.groupby("operator").sum(numeric_only=True)
    for name, row in expected["rows"].items():
        assert sums.loc[name, [*row]].astype(int).to_dict() == row, name
    by_shape, _ = apart_from_graphs(operators(job, by="shape").operators)
    assert (
        len(by_shape[["operator", "input_dims"]].drop_duplicates())
        == (expected["name_shape_pairs"])
    )


def test_sums(job):
    for by in ("name", "shape", "stack"):
        check_sums(job, operators(job, by=by))


def test_rows_of_a_name_add_up(job):
    columns = ["calls", "cpu_total_ns", "gpu_total_ns", "tensor_core_ns", "backward_gpu_ns"]
    keys = ["operator", "phase"]
    by_name, by_shape, by_stack = (
        operators(job, by=by).operators.groupby(keys)[columns].sum().sort_index()
        for by in ("name", "shape", "stack")
    )
    assert by_shape.equals(by_name)
    assert by_stack.equals(by_name)


def test_every_rank_of_a_job():
    job = opened(REAL_TRACES / "kineto" / "dlrm_2rank")
    result = operators(job)
    check_sums(job, result)
    steps = sorted({*idle_owners(job).causes["step"]} - {-1})
    for number in steps:
        part = operators(job, steps=[number])
        idle = idle_owners(job, steps=[number]).devices.groupby("rank")["idle_ns"].sum()
        assert (part.ranks.set_index("rank")["idle_ns"] == idle).all()
