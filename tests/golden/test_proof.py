"""Findings on real traces are seen where *Show* leads, and the evidence adds up to the price."""

from __future__ import annotations

import json

import pytest

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.diagnosis.proof.proof import LEAST_SHARE
from hta_widgets.diagnosis.proof.what import Removed
from tests.conftest import REAL_TRACES
from tests.golden.reference import diagnosed, opened
from tests.golden.test_verdicts import VERDICTS

NS_PER_MS = 1_000_000
FIRST = ("warm_up", "autotuning")
"""Found once, in the steps that are slow: their price is spread over all steps."""

RECORDINGS = json.loads(VERDICTS.read_text())
WITH_FINDINGS = [name for name, verdict in RECORDINGS.items() if verdict["findings"]]


@pytest.mark.parametrize("recording", WITH_FINDINGS)
def test_what_show_leads_to(real_traces, recording):  # noqa: ARG001
    job, found = opened(REAL_TRACES / recording), diagnosed(REAL_TRACES / recording)
    steps = found.steps["step"].nunique()
    analysed_ns = idle_owners(job, found.ranks).in_budget().devices["window_ns"].max()
    for finding in found:
        seen = found.proof(finding)
        lengths = seen.intervals["end_ns"] - seen.intervals["start_ns"]
        assert (lengths > 0).all()
        counted = steps if finding.cause in FIRST else len(finding.seen.steps)
        # 1 ns of each interval is lost by rounding, and the warm-up of a step is its excess
        assert seen.ms >= 0.999 * finding.recoverable_ms * counted - len(lengths) / NS_PER_MS
        if len(found.ranks) == 1 and isinstance(finding.seen.what, Removed):
            assert seen.ms <= 1.001 * finding.recoverable_ms * counted + len(lengths) / NS_PER_MS
        for place, (_, window) in enumerate(seen.windows.iterrows()):
            start, end = seen.shown_ns(place)
            assert 0 <= start <= window["start_ns"] < window["end_ns"] <= end
            assert end - start <= analysed_ns
            inside = seen.intervals[["start_ns", "end_ns"]].clip(start, end)
            held_ms = (inside["end_ns"] - inside["start_ns"]).sum() / NS_PER_MS
            assert held_ms >= window["ms"] > 0
        first = seen.windows.iloc[0]
        assert first["percent"] >= 100 * LEAST_SHARE or seen.why_less
        assert set(seen.intervals["rank"]) <= {*finding.seen.ranks}


@pytest.mark.parametrize("recording", RECORDINGS)
def test_what_is_worth_trying_is_in_kernels_that_show(real_traces, recording):  # noqa: ARG001
    found = diagnosed(REAL_TRACES / recording)
    for line in found.to_try:
        seen = found.proof(line)
        assert not seen.windows.empty, line.words.sentence("")


def test_what_rounding_makes_of_kernels_back_to_back_is_no_interval(real_traces):  # noqa: ARG001
    """The host is late with 7 of 562 kernels, and 560 intervals were shown."""
    found = diagnosed(REAL_TRACES / "kineto/mi210_gpu_only")
    assert len(found.proof(found[1]).intervals) == 24
