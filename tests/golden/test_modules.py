"""Modules on real traces: the reference values."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.modules import modules
from tests.golden.reference import attributed, opened, place_of
from tests.golden.test_idle_owners import TRACES


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.partition("/")[0])
def test_equal_to_the_reference(trace):
    expected, result = (
        attributed("modules")[trace],
        modules(opened(place_of(trace)), source="modules"),
    )
    tree, outside = result.modules, result.outside
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
