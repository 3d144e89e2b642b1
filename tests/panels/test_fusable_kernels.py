"""The panel of what one kernel could replace, against the events of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets import Dashboard, open_trace
from hta_widgets.panels.bands.own_panels import NOTHING_TO_FUSE, FusableKernelsPanel
from hta_widgets.quantities import duration
from tests.kineto_text import read

FUSED = 1.5
"""Kernels that one takes as long as, which reads and writes what they do."""


def rows_of(path: Path) -> list[tuple[str, float]]:
    """Name and duration (ms) of the kernels that the step of a file launches, in order of time."""
    events = read(path)["traceEvents"]
    (step,) = (
        each
        for each in events
        if each.get("cat") == "user_annotation" and each["name"].startswith("ProfilerStep")
    )
    launched = {
        each["args"]["correlation"]
        for each in events
        if each.get("cat") in ("cuda_runtime", "cuda_driver")
        and step["ts"] <= each["ts"] < step["ts"] + step["dur"]
    }
    kernels = [
        each
        for each in events
        if each.get("cat") == "kernel" and each["args"]["correlation"] in launched
    ]
    kernels.sort(key=lambda each: (each["args"]["stream"], each["ts"]))
    return [(each["name"], each["dur"] / 1e3) for each in kernels]


def test_chains_are_those_of_the_file(real_traces: Path):
    job = open_trace(real_traces / "kineto" / "h100_qwen", progress=False)
    panel = FusableKernelsPanel(job)
    table = panel.table
    total, saved = (duration(1e6 * table[name].sum()) for name in ("total_ms", "saved_ms"))
    assert panel._view["finding"] == (
        f"{len(table)} chains of elementwise kernels take {total} per step (mean of all analysed "
        f"steps); fusing would save {saved} of kernel time."
    )
    assert table["saved_ms"].is_monotonic_decreasing
    (path,) = (real_traces / "kineto" / "h100_qwen").glob("*.gz")
    kernels = rows_of(path)
    first = table.iloc[0]
    size = int(first["kernels"].rpartition("(")[2].split()[0])
    assert size == len(first["kernels"].split(" → "))
    starts = [
        place
        for place, (name, _) in enumerate(kernels)
        if name == first["first_kernel"]
        and "rsqrt" in kernels[place + 1][0]
        and "elementwise" not in kernels[place - 1][0]
    ]
    assert len(starts) == first["count"]
    taken_ms = sum(kernels[start + place][1] for start in starts for place in range(size))
    assert first["total_ms"] == pytest.approx(taken_ms, rel=1e-3)
    assert first["saved_ms"] == pytest.approx(taken_ms * (1 - FUSED / size), rel=1e-3)


def test_unfused_attention_is_listed_with_its_price(real_traces: Path):
    board = Dashboard(real_traces / "kineto" / "mi300_timesformer")
    place = [each.cause for each in board.findings].index("unfused_elementwise")
    found = board.findings[place]
    assert found.links[0].panel == "fusable_kernels"
    table = board.panels["fusable_kernels"].table
    assert table["kernels"].tolist() == ["bmm → softmax → bmm, 3,137 queries × 3,137 keys"]
    assert table["saved_ms"].sum() == pytest.approx(found.recoverable_ms, rel=0.01)
    assert board.panels["fusable_kernels"]._view["finding"].startswith("Unfused attention takes ")


def test_nothing_to_fuse_is_said(real_traces: Path):
    job = open_trace(real_traces / "kineto" / "sglang_decode_graph", progress=False)
    panel = FusableKernelsPanel(job)
    assert panel.table.empty
    assert panel._view["empty"] == NOTHING_TO_FUSE
