"""What stands in place of findings where only faster kernels would help."""

from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets import diagnose
from hta_widgets.panels import Dashboard
from hta_widgets.panels.bands.gpu_bound import (
    far_from_peak,
    gpu_bound,
    largest_kernels,
    slow_shape_sentence,
)
from hta_widgets.trace.job import Job
from tests.analyses.generated_jobs import open_job
from tests.diagnosis.findings.test_gpu_bound import (
    A100,
    FLASH,
    attention_of,
    made,
    product,
    served,
)
from tests.kineto_text import call, kernel


def test_it_is_not_said_where_there_is_a_finding(loaded: Job):
    board = Dashboard(loaded)
    board.compute_all()
    assert board._bands["findings"]
    assert board._bands["kernels"] is None


def test_the_largest_kernels_come_first_with_their_calls_and_share(tmp_path):
    names = ["small", *["sgemm"] * 5, *["norm"] * 4]
    launches = [call(n, 1, n + 1) for n in range(len(names))]
    kernels = [
        kernel(20 + 1000 * n, 1000, name=name, correlation=n + 1) for n, name in enumerate(names)
    ]
    board = Dashboard(open_job(tmp_path, [[*launches, *kernels]]))
    board.compute_all()
    assert board._bands["kernels"]["text"] == "in the GPU span"
    table = board._bands["kernels"]["table"]
    names = [each["name"] for each in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    assert [row["kernel"] for row in rows] == ["sgemm", "norm", "small"]
    assert [row["calls"] for row in rows] == [5, 4, 1]
    assert [row["share_percent"] for row in rows] == pytest.approx([50, 40, 10])


def test_bars_of_what_to_try_are_parts_of_the_largest_price(real_traces):
    board = Dashboard(real_traces / "kineto" / "compare_test")
    board.compute_all()
    (found,), (tried, *_) = board._bands["findings"], board._bands["to_try"]
    assert (found["price"], tried["price"]) == ("8.08 ms", "4.21 ms")
    assert (found["share"], tried["share"]) == pytest.approx((1, 4.21 / 8.08), rel=0.001)


@pytest.mark.parametrize("trace", ["ns_resolution", "torch_compile", "sglang_decode_graph"])
def test_the_panel_of_a_line_marks_what_it_is_about(real_traces, trace):
    """Of "operators that only read and write memory", a list opened with all bars alike."""
    board = Dashboard(real_traces / "kineto" / trace)
    for place, line in enumerate(board.findings.to_try, len(board.findings)):
        (link,) = line.links
        if link.kernel:
            continue
        board.selection.finding = place
        *_, chart = board.panels[link.panel].figures.values()
        bars = [bar for bar in chart.data if bar.customdata is not None]
        shown = {row[0] for bar in bars for row in bar.customdata}
        marked = {bar.customdata[at][0] for bar in bars for at in bar.selectedpoints or ()}
        assert marked == shown & {*link.names}
        assert marked < shown


def test_amd_has_words_of_its_own(real_traces):
    board = Dashboard(real_traces / "kineto" / "sglang_decode_graph")
    board.compute_all()
    kernels = board._bands["kernels"]
    said = [
        board._bands["to_try"][1]["cause"],
        *(each["label"] for each in kernels["table"]["columns"]),
    ]
    assert "on matrix cores" in said[0]
    assert "in HIP graphs" in said[0]
    assert "matrix cores" in said[1:]
    panel = board.panels["operators"]
    panel.compute_all()
    shown = [panel.verdict, *(each["label"] for each in panel._view["table"]["columns"])]
    assert "HIP graph 1 (544 kernels) takes the most" in shown[0]
    kinds = next(
        each["options"]
        for each in board.panels["kernel_breakdown"]._spec["controls"]
        if each["name"] == "kernel_type"
    )
    assert ("HIP graphs", "CUDA_GRAPH") in kinds
    assert not any("CUDA graph" in text or "tensor core" in text for text in (*said, *shown))
    idle = board.panels["idle_owners"].figures["Causes of the idle time of each GPU"]
    assert any(bar.name.startswith("Inside a HIP graph") for bar in idle.data)
    assert "CUDA graph" not in idle.to_json()


@pytest.mark.parametrize(
    ("peak_percent", "words"),
    [
        (44, "aten::mm 8×8 · 8×8 reaches 44 % of the peak, its best shape 60 %: at that rate "),
        (50, ""),  # near enough to the best
    ],
)
def test_a_shape_that_is_slower_than_others_of_its_operator_is_named(peak_percent, words):
    table = pd.DataFrame(
        {
            "operator": ["aten::mm", "aten::mm", "aten::addmm"],
            "input_dims": ["[[4, 4], [4, 4]]", "[[8, 8], [8, 8]]", "[[4], [4, 4]]"],
            "dtype": "bf16",
            "bound": "compute",
            "gpu_ns": [1_000_000, 3_000_000, 9_000_000],
            "percent_of_peak": [60.0, peak_percent, 90.0],
        }
    )
    said = slow_shape_sentence(table, 13_000_000)
    assert said == (f"{words}it would take 800 µs less." if words else "")


@pytest.mark.parametrize(
    ("norm_us", "words"),
    [
        (2_000, "Matrix products, convolutions and attention of known shapes reach 687 TFLOP/s in"),
        (10_000, ""),
    ],
)
def test_rates_of_next_to_nothing_are_not_said(tmp_path, norm_us, words):
    """Above a table of matrix products in graphs, 154 TFLOP/s were reached "in 0.222 %"."""
    found = made(tmp_path, product(100), norm_us=norm_us)
    assert gpu_bound(found.job, found)["label"].startswith(words)
    assert bool(words) == bool(gpu_bound(found.job, found)["label"])


def test_the_peak_that_limits_a_kernel_is_named(tmp_path):
    """Both were "of peak", and attention at 22.8 % had none."""
    scores = attention_of(25)
    found = made(tmp_path, scores, norm_us=scores["length"], gpu=A100)
    table = largest_kernels(found.job, found.ranks, ()).set_index("kernel")
    assert table["of_peak"][FLASH] == "25 % FLOP/s"
    assert "25 % of its peak" in found.finding
    (tmp_path / "decodes").mkdir()
    decodes = diagnose(served(tmp_path / "decodes"))
    table = largest_kernels(decodes.job, decodes.ranks, ()).set_index("kernel")
    assert table["of_peak"]["Cijk_BBS"] == "5.08 % GB/s"
    assert "5.08 % of the memory bandwidth" in decodes.finding


@pytest.mark.parametrize(("norm_us", "is_said"), [(890, True), (910, False)])
def test_excess_is_said_where_it_is_of_a_tenth_of_the_kernel_time(tmp_path, norm_us, is_said):
    """The product takes 100 µs, and the roof of a norm without shapes is not known."""
    found = made(tmp_path, product(100), norm_us=norm_us)
    spans_ns = found.steps.groupby("rank")["period_ns"].sum()
    said = far_from_peak(found.job, found.ranks, (), spans_ns)
    assert ("1 ms of kernels with known limits" in said) is is_said
    assert "the MFU over the GPU span is " in said
