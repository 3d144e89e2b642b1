"""User annotations on real traces: the reference values, and sums."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.gpu_annotations import gpu_annotations
from tests.analyses.test_gpu_annotations import RawAnnotations, check_sums
from tests.golden.reference import NO_ATTRIBUTION, attribution, opened, place_of
from tests.kineto_text import events_of

COLUMNS = {
    "gpu_ranges": "recorded_ranges",
    "gpu_range_ns": "recorded_range_ns",
}
"""Names of the reference, and ours where they differ."""

NESTED = ("alexnet", "cupti_counters", "dlrm_8rank", "simple_add")
"""Traces with an annotation inside another of its name, whose time the reference counts twice."""

SMALL = (*NESTED, "dlrm_2rank", "mi250_toy", "sglang_decode_graph", "torch_compile")


@pytest.mark.skipif(not attribution("annotations"), reason=NO_ATTRIBUTION)
@pytest.mark.parametrize("trace", attribution("annotations"))
def test_equal_to_the_reference(trace):
    result = gpu_annotations(opened(place_of(trace)))
    rows = result.annotations.set_index("annotation")
    is_nested = trace.partition("/")[0] in NESTED
    for name, of_name in attribution("annotations")[trace].items():
        expected = {key: of_name[key] for key in of_name if not (is_nested and key == "cpu_sum_ns")}
        columns = [COLUMNS.get(column, column) for column in expected]
        assert rows.loc[name, columns].tolist() == [*expected.values()], name
    check_sums(result)
    if trace.partition("/")[0] in SMALL:
        raw = RawAnnotations(events_of(place_of(trace))).by_name()
        ours = rows[rows["calls"] > 0]
        assert ours[[*next(iter(raw.values()))]].to_dict("index") == raw
