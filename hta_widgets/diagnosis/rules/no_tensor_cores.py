"""Matrix products that do not use tensor cores."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.compute_facts import ComputeFacts
from hta_widgets.diagnosis.facts.conditions import Condition, holding
from hta_widgets.diagnosis.finding import Advice, Finding
from hta_widgets.diagnosis.proof.what import Saving
from hta_widgets.diagnosis.rules.host_evidence import if_host_kept_up
from hta_widgets.diagnosis.rules.wording import link_of_kernels, on_ranks, within_module
from hta_widgets.quantities import NS_PER_MS, duration, percent

HALF: Final = 0.5
"""The larger half of the time decides what to do."""


@cause(
    seen_in="compute",
    when="Matrix products and convolutions spend more than 10 % of their time in kernels without "
    "tensor cores, on GPUs that have them.",
    advice=(
        Advice(
            "Pad the dimensions (batch, vocabulary, width) to multiples of 8.",
            "vocabulary = (vocabulary + 7) // 8 * 8",
            needs=(Condition.HALF, Condition.UNEVEN),
        ),
        Advice(
            "Update PyTorch and its cuBLAS: newer versions use tensor cores for more shapes.",
            needs=(Condition.HALF,),
        ),
        Advice(
            "Update cuBLAS: newer versions use tensor cores for more shapes.",
            needs=(Condition.NO_PYTORCH, Condition.HALF),
        ),
        Advice(
            "Compute these products in 16 bits, which the tensor cores of this GPU support.",
            needs=(Condition.NO_PYTORCH,),
            unless=(Condition.HALF, Condition.DOUBLE, Condition.TF32),
        ),
        Advice(
            "Let cuBLAS compute float32 products in TF32.",
            "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH);",
            needs=(Condition.NO_PYTORCH, Condition.TF32),
            unless=(Condition.HALF, Condition.DOUBLE),
        ),
        Advice(
            "Let float32 convolutions use TF32.",
            "torch.backends.cudnn.allow_tf32 = True",
            needs=(Condition.TF32, Condition.CONVOLUTIONS),
            unless=(Condition.HALF, Condition.DOUBLE, Condition.AMD),
        ),
        Advice(
            "Let float32 matrix products use TF32.",
            'torch.set_float32_matmul_precision("high")',
            needs=(Condition.TF32,),
            unless=(Condition.HALF, Condition.DOUBLE, Condition.CONVOLUTIONS),
        ),
        Advice(
            "Compute in float32 with TF32 where that is precise enough.",
            'torch.set_float32_matmul_precision("high")\n'
            "model, inputs = model.float(), inputs.float()",
            needs=(Condition.DOUBLE, Condition.TF32),
            unless=(Condition.HALF,),
        ),
        Advice(
            "Compute in float32 where that is precise enough.",
            "model, inputs = model.float(), inputs.float()",
            needs=(Condition.DOUBLE,),
            unless=(Condition.HALF, Condition.TF32),
        ),
        Advice(
            "Compute in float32 where that is precise enough.",
            needs=(Condition.NO_PYTORCH, Condition.DOUBLE),
            unless=(Condition.HALF,),
        ),
        Advice(
            "Compute these products in 16 bits.",
            'with torch.autocast("cuda", dtype=torch.bfloat16):\n    ...',
            needs=(Condition.BF16,),
            unless=(Condition.HALF, Condition.DOUBLE, Condition.AUTOCAST),
        ),
        Advice(
            "Compute these products in 16 bits, and scale the loss.",
            'scaler = torch.amp.GradScaler("cuda")  # once, before the loop\n'
            'with torch.autocast("cuda", dtype=torch.float16):\n    ...\n'
            "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
            needs=(Condition.TRAINING,),
            unless=(Condition.HALF, Condition.DOUBLE, Condition.AUTOCAST, Condition.BF16),
        ),
        Advice(
            "Compute these products in 16 bits: tensor cores on this GPU need FP16.",
            'with torch.autocast("cuda", dtype=torch.float16):\n    ...',
            unless=(
                Condition.HALF,
                Condition.DOUBLE,
                Condition.AUTOCAST,
                Condition.BF16,
                Condition.TRAINING,
            ),
        ),
        Advice(
            "Find out why these products run outside torch.autocast, or in a region that disables "
            "it.",
            needs=(Condition.AUTOCAST,),
            unless=(Condition.HALF, Condition.DOUBLE),
        ),
    ),
)
def no_tensor_cores(context: Context) -> Finding | None:
    """Report matrix products without tensor cores on GPUs that have them."""
    facts = {rank: context.facts[rank].compute for rank in context.ranks}
    if not facts or not all(each.gpu.has_tensor_cores for each in facts.values()):
        return None
    product, plain = context.computing("product"), context.computing("plain")
    ranks = context.blamed(plain.mean(axis=1))
    rows = [context.ranks.index(rank) for rank in ranks]
    share = 100 * plain[rows].sum() / max(product[rows].sum(), 1)
    if share <= context.limits.float32_percent:
        return None
    saved = context.computing("plain", saved=True)
    found = context.faster_kernels(no_tensor_cores, "tensor cores", saved, "plain", bound="about")
    if found is None:
        return None
    price, hidden_ns = found
    products_ns = float(product[rows].mean())
    blamed = [facts[rank] for rank in ranks]
    is_half = bool(context.computing("half").sum() > HALF * plain.sum())
    is_double = bool(context.computing("double").sum() > HALF * plain.sum())
    listed = max((each.products.rows for each in blamed), key=lambda of: sum(x[-1] for x in of))
    names = frozenset[str]().union(*(each.products.names for each in blamed))
    plain_ns = sum(int(each.taken["plain"].sum()) for each in blamed)
    modules = [each.products.modules for each in blamed if not is_half]
    within, inside = within_module(context, modules, plain_ns)
    convolves = any(each.products.convolution_ns for each in blamed)
    work = f"{'convolutions and ' * convolves}matrix products"
    which = f"{'16-bit kernels' if is_half else 'float32 kernels'} that use no tensor cores"
    if is_double:
        which = "float64, which takes longer than float32 would"
    return context.finding(
        no_tensor_cores,
        words=(
            f"{percent(share)} of the {duration(products_ns)} in {work}"
            f"{context.steps.per_noun}{on_ranks(context, ranks)} is in "
            f"{which}{_uneven(blamed) if is_half else within}"
        ),
        price=price,
        ranks=ranks,
        steps=context.steps_with(plain),
        conditions=_conditions(blamed, is_half=is_half, is_double=is_double),
        detail=if_host_kept_up(context, price, hidden_ns),
        evidence={
            "share_percent": float(share),
            "products_ms": products_ns / NS_PER_MS,
            "if_host_kept_up_ms": hidden_ns / NS_PER_MS,
            **inside,
            "kernels": pd.DataFrame(
                [(*row[:-1], row.total_ns / NS_PER_MS) for row in listed],
                columns=["kernel", "shapes", "type", "count", "ms"],
            ),
        },
        links=(link_of_kernels(ranks, names),),
        seen_in=Saving(("plain",)),
    )


def _uneven(blamed: list[ComputeFacts]) -> str:
    """Name the dimension that keeps most products off the tensor cores; empty if none does."""
    if not _is_uneven(blamed):
        return ""
    most = max((each.products for each in blamed), key=lambda products: products.uneven_ns)
    return f", because dimensions are not multiples of 8, such as {most.uneven}"


def _is_uneven(blamed: list[ComputeFacts]) -> bool:
    half_ns = sum(int(each.taken["half"].sum()) for each in blamed)
    return sum(each.products.uneven_ns for each in blamed) > HALF * half_ns


def _conditions(
    blamed: list[ComputeFacts], *, is_half: bool, is_double: bool
) -> frozenset[Condition]:
    """What holds for these products and their GPUs."""
    plain_ns = sum(int(each.taken["plain"].sum()) for each in blamed)
    convolution_ns = sum(each.products.convolution_ns for each in blamed)
    known = {
        Condition.DOUBLE: is_double,
        Condition.CONVOLUTIONS: convolution_ns > HALF * plain_ns,
        Condition.HALF: is_half,
        Condition.UNEVEN: is_half and _is_uneven(blamed),
        Condition.TF32: all(each.gpu.has_tf32 for each in blamed),
        Condition.BF16: all(each.gpu.has_bf16 for each in blamed),
    }
    return holding(known)
