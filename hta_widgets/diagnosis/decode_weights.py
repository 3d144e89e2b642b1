"""How fast decoding reads the weights of a model: what bounds a server whose GPU is busy."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.roofline import roofline
from hta_widgets.analyses.roofline.formulas import inputs_of
from hta_widgets.analyses.roofline.peaks import GIGA, TERA
from hta_widgets.analyses.server_steps import server_steps
from hta_widgets.quantities import data_size, duration, number, percent
from hta_widgets.trace.job import Job

MOST_ROWS: Final = 64
"""Products of so many rows, the requests of a step, read their weights for hardly any of them."""

LEAST_PERCENT: Final = 30
"""Part of the steps that such products take if anything is said of them: of the rest, quantised
products and those of experts, nobody knows what they read."""

AT_LIMIT_PERCENT: Final = 60
"""Part of the memory's bandwidth from which better kernels would hardly help."""

_WEIGHT: Final = {"aten::mm": 1, "aten::addmm": 2}
"""Which input of a product is the weight."""


def decode_weights(job: Job) -> tuple[str, ...]:
    """Say in a sentence how many weights a decoding step reads, and how fast; of one rank.

    Nothing where not all analysed steps decode, no peak is known, or less than `LEAST_PERCENT` of
    their time is in products of at most `MOST_ROWS` rows whose shapes are recorded.
    """
    steps = server_steps(job).steps
    if not len(steps) or set(steps["phase"]) != {"decode"} or not steps["recorded"].all():
        return ()
    rank = int(steps["rank"].iloc[0])
    own = steps[steps["rank"] == rank]
    made = roofline(job, [rank])
    peak = made.peak
    table = made.operators[made.operators["operator"].isin(_WEIGHT)]
    weights = [_weight_bytes(*row) for row in table[_COLUMNS].itertuples(index=False)]
    read = np.array(weights, dtype=np.int64) * table["calls"].to_numpy()
    chosen = read > 0
    gpu_ns, total = int(table["gpu_ns"].to_numpy()[chosen].sum()), int(read.sum())
    period_ns = int(own["period_ns"].sum())
    if peak is None or not gpu_ns or 100 * gpu_ns < LEAST_PERCENT * period_ns:
        return ()
    rate, count = total / gpu_ns, len(own)
    of_peak = 100 * rate / peak.gb_per_s
    said = (
        f"decoding reads {data_size(total / count)} of weights per step at "
        f"{number(rate / 1000)} TB/s, {percent(of_peak)} of the memory's peak, in "
        f"{percent(100 * gpu_ns / period_ns)} of the time"
    )
    if of_peak >= AT_LIMIT_PERCENT:
        dtype = str(table["dtype"].iloc[0])
        size = _ELEMENT.get(dtype)
        if dtype in peak.tflops and size:
            rows = peak.tflops[dtype] * TERA * size / 2 / (peak.gb_per_s * GIGA)
            said += (
                f": at its limit, where more requests per step cost little up to some {rows:.0f}"
            )
        return (said,)
    saved = duration((gpu_ns - total / peak.gb_per_s) / count)
    return (f"{said}: faster kernels for products of few rows would save up to {saved} per step",)


_COLUMNS: Final = ["operator", "input_dims", "input_types"]
_ELEMENT: Final = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp8": 1}


def _weight_bytes(operator: str, dims: str, types: str) -> int:
    """Bytes of the weight of a product of few rows; 0 for any other."""
    place = _WEIGHT[operator]
    left, weight = inputs_of(dims, types).tensors[place - 1 : place + 1]
    if left is None or weight is None or left.shape[0] > MOST_ROWS:
        return 0
    return weight.bytes
