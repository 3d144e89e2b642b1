"""Chains of elementwise kernels, and attention, that one kernel could replace."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.facts.compute_facts import ComputeFacts
from hta_widgets.diagnosis.finding import Evidence, Finding, Link
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.rules.wording import on_ranks, within_module
from hta_widgets.quantities import duration, percent

_COMPILE: Final = "Use torch.compile, or a fused kernel (fused optimizer, fused activation)."
_ATTENTION: Final = (
    "Use torch.nn.functional.scaled_dot_product_attention (attn_implementation='sdpa' in "
    "Transformers, need_weights=False in MultiheadAttention)."
)
_MATH: Final = (
    "Give scaled_dot_product_attention what its fused kernels take (type, mask, head size): inside "
    "torch.nn.attention.sdpa_kernel, it warns of what they refuse."
)


@cause(
    seen_in="compute",
    limit="least_percent_in_every_job",
    when="Elementwise kernels run in chains of three and more, and fusing them would save the "
    "least cost; they take more than 10 % of the computing time. Or attention is not fused: "
    "shapes show a softmax over what one product of batches makes and the next one takes, "
    "with more keys than a head is wide. Its least cost is the time of all that runs on the "
    "scores between these products, forward and backward. The module with 60 % of it is "
    "named.",
)
def unfused_elementwise(context: Context) -> Finding | None:
    """Report kernels that only read and write between others, by what fusing them would save."""
    chains, attention = context.computing("fusible_ns"), context.computing("attention_saved_ns")
    share = _share(context, context.blamed(chains.mean(axis=1)))
    has_chains = share > context.limits.elementwise_percent
    saved = attention + chains if has_chains else attention
    recoverable_ns = context.steps.gain_ns(saved)
    if not context.is_worth_it(unfused_elementwise, recoverable_ns):
        return None
    context.removed[unfused_elementwise] = saved
    ranks = context.blamed(saved.mean(axis=1))
    blamed = [context.facts[rank].compute for rank in ranks]
    names_attention = _is_attention(context, attention, saved)
    if names_attention:
        also_chains = has_chains and bool(chains.any())
        words, numbers = _of_attention(context, ranks, blamed, has_chains=also_chains)
    else:
        words, numbers = _of_chains(context, ranks, blamed, share)
    return context.finding(
        unfused_elementwise,
        words=words,
        recoverable_ns=recoverable_ns,
        ranks=ranks,
        steps=context.steps_with(saved),
        action=_action(blamed, is_attention=names_attention),
        evidence={"share_percent": share, **numbers, **_tables(blamed)},
        links=(Link(panel="kernel_sequences", ranks=ranks),),
        is_lower_bound=names_attention,
    )


def _share(context: Context, ranks: tuple[int, ...]) -> float:
    """Part (%) of the computing time of some ranks that is in elementwise kernels."""
    rows = [context.ranks.index(rank) for rank in ranks]
    elementwise_ns = context.computing("elementwise_ns")[rows].sum()
    return float(100 * elementwise_ns / max(context.steps["compute"][rows].sum(), 1))


def _is_attention(context: Context, attention: Matrix, saved: Matrix) -> bool:
    """Whether attention alone is worth a finding, or owns most of what is saved."""
    owns = bool(100 * attention.sum() >= context.limits.owner_percent * saved.sum())
    return owns or context.is_worth_it(unfused_elementwise, context.steps.gain_ns(attention))


def _of_attention(
    context: Context, ranks: tuple[int, ...], blamed: list[ComputeFacts], *, has_chains: bool
) -> tuple[str, dict[str, Evidence]]:
    """What the sentence says, and its numbers."""
    rows = [context.ranks.index(rank) for rank in ranks]
    whole_ns = context.computing("attention_ns")[rows].mean()
    compute_ns = context.steps["compute"][rows].mean()
    modules = [each.attention.modules for each in blamed]
    within = within_module(context, modules, sum(int(each.attention_ns.sum()) for each in blamed))
    computing = f"{duration(compute_ns)} computing{context.steps.per_noun}"
    words = (
        f"Unfused attention (bmm + softmax + bmm) takes {duration(whole_ns)} of "
        f"{computing}{on_ranks(context, ranks)}{within.words}; "
        f"a fused kernel{' and fused elementwise chains' if has_chains else ''} would save time"
    )
    times: dict[str, Evidence] = {
        "attention_ms": float(whole_ns) / NS_PER_MS,
        "computing_ms": float(compute_ns) / NS_PER_MS,
    }
    return words, times | within.evidence


def _of_chains(
    context: Context, ranks: tuple[int, ...], blamed: list[ComputeFacts], share: float
) -> tuple[str, dict[str, Evidence]]:
    """What the sentence says, and its number besides the share."""
    longest = max(row.kernels for each in blamed for row in each.chains)
    words = (
        f"{percent(share)} of the computing time{on_ranks(context, ranks)} is in elementwise "
        f"kernels, in chains of up to {longest}; fusing them would save time"
    )
    return words, {"longest_chain": longest}


def _action(blamed: list[ComputeFacts], *, is_attention: bool) -> str:
    if not is_attention:
        return _COMPILE
    return _MATH if all(each.attention.is_math for each in blamed) else _ATTENTION


def _tables(blamed: list[ComputeFacts]) -> dict[str, Evidence]:
    chains = max((each.chains for each in blamed), key=len)
    scores = max((each.attention.rows for each in blamed), key=len)
    tables: dict[str, Evidence] = {
        "chains": pd.DataFrame(
            [(row.name, row.kernels, row.times, row.total_ns / NS_PER_MS) for row in chains],
            columns=["first_kernel", "kernels", "count", "ms"],
        )
    }
    if scores:
        tables["attention"] = pd.DataFrame(
            [
                (*row.scores[1:], row.times, row.products_ns / NS_PER_MS, row.others_ns / NS_PER_MS)
                for row in scores
            ],
            columns=["queries", "keys", "count", "products_ms", "others_ms"],
        )
    return tables
