"""Image layouts that are changed before and after convolutions."""

from __future__ import annotations

import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition, holding
from hta_widgets.diagnosis.finding import Advice, Finding
from hta_widgets.diagnosis.proof.what import Saving
from hta_widgets.diagnosis.rules.host_evidence import if_host_kept_up
from hta_widgets.diagnosis.rules.wording import link_of_kernels, named, on_ranks, per_step
from hta_widgets.quantities import NS_PER_MS, percent


@cause(
    seen_in="compute",
    limit="least_percent_with_evidence",
    when="cuDNN or MIOpen kernels convert images between NCHW and NHWC around convolutions.",
    advice=(
        Advice(
            "Keep images in NHWC, and tell MIOpen to accept that (for volumes: channels_last_3d).",
            "import os\n\n"
            'os.environ["PYTORCH_MIOPEN_SUGGEST_NHWC"] = "1"  # first of all\n'
            "model = model.to(memory_format=torch.channels_last)\n"
            "images = images.to(memory_format=torch.channels_last)",
            needs=(Condition.NHWC, Condition.AMD),
            unless=(Condition.IMAGES_NHWC,),
        ),
        Advice(
            "Keep images in NHWC, as the convolutions use it (for volumes: channels_last_3d).",
            "model = model.to(memory_format=torch.channels_last)\n"
            "images = images.to(memory_format=torch.channels_last)",
            needs=(Condition.NHWC,),
            unless=(Condition.AMD, Condition.IMAGES_NHWC),
        ),
        Advice(
            "Compute the convolutions in 16 bits: on tensor cores they use NHWC, as the images do.",
            'with torch.autocast("cuda", dtype=torch.bfloat16):\n    ...',
            needs=(Condition.IMAGES_NHWC, Condition.FLOAT32, Condition.BF16),
            unless=(Condition.AUTOCAST,),
        ),
        Advice(
            "Keep one layout from the input on, and compare the times of both layouts.",
            "images = images.to(memory_format=torch.channels_last)\n"
            "images = images.contiguous(memory_format=torch.contiguous_format)",
            unless=(Condition.NHWC, Condition.IMAGES_NHWC),
        ),
        Advice("Look for .contiguous() and permute() between convolutions."),
    ),
)
def layout_transposes(context: Context) -> Finding | None:
    """Report the kernels that do nothing but change the layout of images."""
    converting = context.computing("layout")
    layouts = [context.facts[rank].compute.layout for rank in context.ranks]
    last_ns, layers_last_ns, layers_first_ns = (
        sum(getattr(each, name) for each in layouts)
        for name in ("channels_last_ns", "layers_last_ns", "layers_first_ns")
    )
    is_last = layers_last_ns > layers_first_ns
    found = context.faster_kernels(
        layout_transposes,
        "one layout of images",
        converting,
        "layout",
        bound="at least" if last_ns > 0 and not is_last else "about",
    )
    if found is None:
        return None
    price, hidden_ns = found
    ranks = context.blamed(converting.mean(axis=1))
    share = context.computing_share("layout", ranks)
    blamed = [context.facts[rank].compute for rank in ranks]
    most = max(blamed, key=lambda each: int(each.taken["layout"].sum()))
    rows = most.layout.rows
    count = sum(row.times for row in rows) / most.step.size
    plain = context.computing("plain") - context.computing("half")
    held = {
        Condition.NHWC: last_ns > 0,
        Condition.IMAGES_NHWC: is_last,
        Condition.FLOAT32: bool(2 * plain.sum() > context.computing("product").sum()),
        Condition.BF16: all(each.gpu.has_bf16 for each in blamed),
    }
    layers = ""
    if last_ns > 0 and layers_first_ns > layers_last_ns:
        layers = "; pools and norms of NHWC are often faster, too"
    return context.finding(
        layout_transposes,
        words=(
            f"{percent(share)} of the compute time{on_ranks(context, ranks)} is in "
            f"{per_step(context, count, 'kernel')} that convert images between NCHW and NHWC, most "
            f"in {named(rows[0].name)}"
        ),
        detail=f"{layers}{if_host_kept_up(context, price, hidden_ns)}",
        price=price,
        ranks=ranks,
        steps=context.steps_with(converting),
        conditions=holding(held),
        evidence={
            "share_percent": share,
            "kernels_per_step": count,
            "if_host_kept_up_ms": hidden_ns / NS_PER_MS,
            "convolutions_in_nhwc_ms": last_ns / NS_PER_MS,
            "layers_in_nhwc_ms": layers_last_ns / NS_PER_MS,
            "layers_in_nchw_ms": layers_first_ns / NS_PER_MS,
            "kernels": pd.DataFrame(
                [(*row[:-1], row.total_ns / NS_PER_MS) for row in rows],
                columns=["kernel", "count", "ms"],
            ),
        },
        links=(link_of_kernels(ranks, {row.name for row in rows}),),
        seen_in=Saving(("layout",)),
    )
