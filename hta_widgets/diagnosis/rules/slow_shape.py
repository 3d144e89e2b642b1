"""Matrix products that are slow because of their shapes."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.roofline.peaks import TERA
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, holding
from hta_widgets.diagnosis.finding import Advice, Finding, Link, other_kernels
from hta_widgets.diagnosis.proof.what import Saving
from hta_widgets.diagnosis.rules.host_evidence import if_host_kept_up
from hta_widgets.diagnosis.rules.wording import on_ranks
from hta_widgets.quantities import NS_PER_MS, number, percent


@cause(
    seen_in="compute",
    when="Matrix products on tensor cores have a dimension that is not a multiple of 8 (of 4 for "
    "TF32) and take 1.5 times as long as others suggest, or the library chose a poor kernel for "
    "a large one.",
    advice=(
        Advice(
            "Pad the dimension (batch, vocabulary, width) to a multiple of 64, or at least of 8.",
            "vocabulary = (vocabulary + 63) // 64 * 64",
            needs=(Condition.UNEVEN,),
        ),
        Advice(
            "Compile the model: the compiler pads such products where that is faster.",
            "model = torch.compile(model)",
            needs=(Condition.UNEVEN,),
            unless=(Condition.COMPILED,),
        ),
        *other_kernels(Condition.UNEVEN),
        Advice(
            "Change the size a little, or split the product: libraries choose kernels by shape.",
            unless=(Condition.UNEVEN,),
        ),
    ),
)
def slow_shape(context: Context) -> Finding | None:
    """Report products that are slower than others on the same rank."""
    taken, saved = context.computing("shape"), context.computing("shape", saved=True)
    found = context.faster_kernels(
        slow_shape, "faster matrix products", saved, "shape", bound="about"
    )
    if found is None:
        return None
    price, hidden_ns = found
    ranks = context.blamed(taken.mean(axis=1))
    share = context.computing_share("shape", ranks)
    blamed = [context.facts[rank].compute for rank in ranks]
    rows = max(blamed, key=lambda each: int(each.taken["shape"].sum())).shapes
    most = rows[0]
    product = most.product
    rate, others_rate = (number(each / TERA) for each in (most.rate, most.others_rate))
    if product.uneven:
        others = f"smaller ones up to {others_rate}"
        if most.of_peak:
            others = f"where half of the peak ({others_rate}) is usual"
        which = (
            f"matrix products whose dimensions do not fit: with {product.uneven}, not a "
            f"multiple of {product.multiple}, they reach {rate} TFLOP/s, {others}"
        )
    else:
        sizes = " × ".join(f"{each:,}" for each in product.sizes[1:])
        which = (
            f"slow matrix products: those of {sizes} reach {rate} TFLOP/s, other large ones "
            f"{others_rate}"
        )
    return context.finding(
        slow_shape,
        words=f"{percent(share)} of the compute time{on_ranks(context, ranks)} is in {which}",
        detail=if_host_kept_up(context, price, hidden_ns),
        price=price,
        ranks=ranks,
        steps=context.steps_with(taken),
        conditions=holding({Condition.UNEVEN: bool(product.uneven)}),
        evidence={
            "share_percent": share,
            "if_host_kept_up_ms": hidden_ns / NS_PER_MS,
            "products": pd.DataFrame(
                [
                    (
                        *(row.operator, row.product.type, *row.product.sizes, row.product.uneven),
                        *(row.times, row.total_ns / NS_PER_MS),
                        *(row.rate / TERA, row.others_rate / TERA, row.of_peak),
                    )
                    for row in rows
                ],
                columns=[
                    *("operator", "type", "batch", "rows", "columns", "summed", "uneven", "count"),
                    *("ms", "tflop_per_s", "others_tflop_per_s", "of_peak"),
                ],
            ),
        },
        links=(Link(panel="roofline", ranks=ranks),),
        seen_in=Saving(("shape",)),
    )
