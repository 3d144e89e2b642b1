"""What is said of the weights that decoding reads."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis.notices import decode_weights
from tests.analyses.diagnosis.thresholds import Case, cases
from tests.kineto_text import call, host, kernel, write
from tests.server_loops import DECODE, PREFILL, vllm

MI300X = {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992}
BF16 = "c10::BFloat16"
STEPS = 4


def served(
    folder,
    *,
    rows: int | None = 16,
    product_us=500.0,
    other_us=500.0,
    other="attention",
    step=DECODE,
    device=MI300X,
):
    """Steps of 1 ms with a product that reads 8,192 × 8,192 × 2 bytes, and another kernel.

    Without rows, no shapes are recorded.
    """
    events, at, number = [], 100.0, 1
    dims = [[rows, 8192], [8192, 8192]]
    for _ in range(STEPS + 1):
        events.append(host(at, 60, vllm(step), cat="user_annotation"))
        inputs = {"Input Dims": dims, "Input type": [BF16, BF16]}
        events.append(host(at + 5, 20, "aten::mm") | ({"args": inputs} if rows else {}))
        events += [call(at + 10, 5, number), call(at + 40, 5, number + 1)]
        events.append(kernel(at + 50, product_us, correlation=number, name="Cijk_BBS"))
        last_us = at + 50 + product_us
        events.append(kernel(last_us, other_us, correlation=number + 1, name=other))
        at, number = at + product_us + other_us, number + 2
    path = write(folder / "rank-0.json", events, deviceProperties=[device])
    return open_trace(path, progress=False)


def test_what_is_read_and_how_fast(tmp_path):
    job = served(tmp_path)
    (said,) = decode_weights(job)
    # 134.2 MB in 0.5 ms are 0.268 TB/s of 5.3, and would take 25 µs
    assert said == (
        "decoding reads 134 MB of weights per step at 0.268 TB/s, 5.06 % of the memory's peak, in "
        "49.4 % of the time: faster kernels for products of few rows would save up to 475 µs per "
        "step"
    )
    assert said in diagnose(job).notices


@pytest.mark.parametrize(
    "options",
    [{"step": PREFILL}, {"device": MI300X | {"name": "Some GPU"}}, {"rows": 65}],
    ids=["prefill", "unknown GPU", "many rows"],
)
def test_silent(tmp_path, options):
    assert decode_weights(served(tmp_path, **options)) == ()


def test_of_a_real_server_with_its_capture(real_traces):
    kineto = real_traces / "kineto"
    job = open_trace(
        kineto / "sglang_decode_graph", captures=kineto / "sglang_capture", progress=False
    )
    (said,) = decode_weights(job)
    assert "15.1 GB of weights per step at 2.62 TB/s, 49.4 % of the memory's peak" in said
    without = open_trace(kineto / "sglang_decode_graph", progress=False)
    assert decode_weights(without) == ()


def at_peak(folder, percent):
    """Whether the product that reads at this part of the peak is at its limit."""
    product_us = 8192 * 8192 * 2 / (percent / 100 * 5.3e12) * 1e6
    (said,) = decode_weights(served(folder, product_us=product_us, other_us=product_us))
    return (
        "at the memory's limit, where more requests per step cost little, up to about 247" in said
    )


test_thresholds = cases(
    Case(
        "notices.MOST_ROWS",
        lambda folder, rows: bool(decode_weights(served(folder, rows=rows))),
        {64: True, 65: False},
    ),
    Case(
        "notices.LEAST_PERCENT",
        lambda folder, part: bool(
            decode_weights(served(folder, product_us=10 * part, other_us=1000 - 10 * part))
        ),
        {29.0: False, 31.0: True},
    ),
    Case("notices.AT_LIMIT_PERCENT", at_peak, {59.0: False, 61.0: True}),
)
