"""Products of matrices that do not use tensor cores."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.facts.compute_facts import ComputeFacts
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.rules.wording import WithinModule, on_ranks, within_module
from hta_widgets.quantities import percent

HALF: Final = 0.5
"""The larger part of the time tells what to do."""

_TF32: Final = "Call torch.set_float32_matmul_precision('high'), or use torch.autocast."
_AUTOCAST: Final = "Use torch.autocast: the tensor cores of these GPUs multiply types of 16 bits."
_PAD: Final = "Pad the dimensions (batch, vocabulary, width) to multiples of 8, or update cuBLAS."


@cause(
    seen_in="compute",
    when="Matrix products and convolutions run in kernels without tensor cores (more than 10 % of "
    "their time), on GPUs that have them: float32, or types of 16 bits, as with dimensions "
    "that are no multiples of 8. The module with 60 % of it is named.",
)
def no_tensor_cores(context: Context) -> Finding | None:
    """Report products of matrices without tensor cores on GPUs that have them."""
    facts = {rank: context.facts[rank].compute for rank in context.ranks}
    if not facts or not all(each.gpu.has_tensor_cores for each in facts.values()):
        return None
    product, plain = context.computing("product_ns"), context.computing("plain_ns")
    ranks = context.blamed(plain.mean(axis=1))
    rows = [context.ranks.index(rank) for rank in ranks]
    share = 100 * plain[rows].sum() / max(product[rows].sum(), 1)
    if share <= context.limits.float32_percent:
        return None
    saved = context.computing("plain_saved_ns")
    recoverable_ns = context.steps.gain_ns(saved)
    if not context.is_worth_it(no_tensor_cores, recoverable_ns):
        return None
    context.removed[no_tensor_cores] = saved
    blamed = [facts[rank] for rank in ranks]
    is_half = bool(context.computing("half_ns").sum() > HALF * plain.sum())
    listed = max((each.products.rows for each in blamed), key=lambda of: sum(x[-1] for x in of))
    within = WithinModule() if is_half else _within(context, blamed)
    return context.finding(
        no_tensor_cores,
        words=(
            f"{percent(share)} of the time in matrix products{on_ranks(context, ranks)} is in "
            f"{'kernels of 16 bits' if is_half else 'float32 kernels'} that use no tensor cores"
            f"{_uneven(blamed) if is_half else within.words}"
        ),
        recoverable_ns=recoverable_ns,
        ranks=ranks,
        steps=context.steps_with(plain),
        action=_action(blamed, is_half=is_half),
        evidence={
            "share_percent": float(share),
            **within.evidence,
            "kernels": pd.DataFrame(
                [(*row[:-1], row.total_ns / NS_PER_MS) for row in listed],
                columns=["kernel", "shapes", "type", "count", "ms"],
            ),
        },
        links=(Link(panel="kernel_breakdown", ranks=ranks, kernel=listed[0].name),),
    )


def _uneven(blamed: list[ComputeFacts]) -> str:
    """The dimension that keeps most of the products off the tensor cores; empty if none does."""
    most = max((each.products for each in blamed), key=lambda products: products.uneven_ns)
    if not _is_uneven(blamed):
        return ""
    return f" for dimensions that are no multiples of 8, such as {most.uneven}"


def _is_uneven(blamed: list[ComputeFacts]) -> bool:
    half_ns = sum(int(each.half_ns.sum()) for each in blamed)
    return sum(each.products.uneven_ns for each in blamed) > HALF * half_ns


def _within(context: Context, blamed: list[ComputeFacts]) -> WithinModule:
    """The module that most of them are in."""
    whole_ns = sum(int(each.plain_ns.sum()) for each in blamed)
    return within_module(context, [each.products.modules for each in blamed], whole_ns)


def _action(blamed: list[ComputeFacts], *, is_half: bool) -> str:
    if is_half:
        return _PAD if _is_uneven(blamed) else "Update cuBLAS, or compute on its tensor cores."
    return _TF32 if all(each.gpu.has_tf32 for each in blamed) else _AUTOCAST
