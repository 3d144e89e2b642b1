"""User annotations on real traces: the reference values, and sums."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache

import pytest

from hta_widgets.analyses.gpu_annotations import gpu_annotations
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.test_gpu_annotations import RawAnnotations, check_sums
from tests.golden.test_idle_owners import ATTRIBUTION, place_of
from tests.raw_idle import events_of, to_ns

COLUMNS = {
    "gpu_ranges": "recorded_ranges",
    "gpu_range_ns": "recorded_range_ns",
}
"""Names of the reference, and ours where they differ."""

SMALL = ("alexnet", "dlrm_2rank", "mi250_toy", "sglang_decode_graph", "torch_compile")


@cache
def references():
    if not ATTRIBUTION.is_file():
        return {}
    values = json.loads(ATTRIBUTION.read_text())
    return {name: each["annotations"] for name, each in values.items()}


def nested_ns(events):
    """CPU time of annotations inside another of their name, which the reference counts twice."""
    found, running = Counter(), defaultdict(list)
    chosen = [event for event in events if event.get("cat") == "user_annotation"]
    for event in sorted(chosen, key=lambda each: (each["ts"], -each["dur"])):
        ends = running[event["pid"], event["tid"], event["name"]]
        if ends and event["ts"] < ends[-1]:
            found[event["name"]] += to_ns(event["dur"])
        else:
            ends.append(event["ts"] + event["dur"])
    return found


@pytest.mark.skipif(not references(), reason=f"no reference results at {ATTRIBUTION}")
@pytest.mark.parametrize("trace", references())
def test_equal_to_the_reference(trace):
    result = gpu_annotations(open_trace(place_of(trace), progress=False))
    rows = result.annotations.set_index("annotation")
    nested = nested_ns(events_of(place_of(trace)))
    for name, known in references()[trace].items():
        expected = {**known, "cpu_sum_ns": known["cpu_sum_ns"] - nested[name]}
        columns = [COLUMNS.get(column, column) for column in expected]
        assert rows.loc[name, columns].tolist() == [*expected.values()], name
    check_sums(result)
    if trace.partition("/")[0] in SMALL:
        raw = RawAnnotations(events_of(place_of(trace))).by_name()
        ours = rows[rows["calls"] > 0]
        assert ours[[*next(iter(raw.values()))]].to_dict("index") == raw
