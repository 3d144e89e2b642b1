"""Chains of elementwise kernels, and unfused attention, that one kernel could replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.compute_facts import ComputeFacts
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice, Evidence, Finding, Link, fused_optimizers
from hta_widgets.diagnosis.job.steps import Matrix
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.proof.what import Saving
from hta_widgets.diagnosis.rank_answers import answers_of_all
from hta_widgets.diagnosis.rules.host_evidence import if_host_kept_up
from hta_widgets.diagnosis.rules.wording import on_ranks, within_module
from hta_widgets.names.readable import kernel_does
from hta_widgets.quantities import NS_PER_MS, duration, percent
from hta_widgets.trace.job import Job

LEFT_BY_COMPILER: Final = 0.5
"""If more than this fraction of the time in elementwise kernels is in compiled code, the compiler
does not fuse them; outside it, a graph break or an eager part would be the reason."""

_WORDS: Final = 6
"""Most kernels of a chain that are named."""

_COLUMNS: Final = ["kernels", "first_kernel", "count", "total_ms", "saved_ms"]


@cause(
    seen_in="compute",
    limit="least_percent_in_every_job",
    when="Elementwise kernels take more than 10 % of the compute time and run in chains of three "
    "or more. Or attention is not fused.",
    advice=(
        Advice(
            "Give scaled_dot_product_attention inputs that its fused kernels accept (type, mask, "
            "head size); in this block, it warns about what they refuse.",
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n\n"
            "with sdpa_kernel(SDPBackend.FLASH_ATTENTION):\n    ...",
            needs=(Condition.ATTENTION, Condition.REFUSED_FUSION),
        ),
        Advice(
            "Use fused attention: attn_implementation='sdpa' in Transformers if the model has it, "
            "need_weights=False in MultiheadAttention.",
            "torch.nn.functional.scaled_dot_product_attention(query, key, value)",
            needs=(Condition.ATTENTION,),
            unless=(Condition.REFUSED_FUSION,),
        ),
        Advice(
            "Compile the model, which fuses them.",
            "model = torch.compile(model)",
            unless=(Condition.COMPILED,),
        ),
        Advice(
            "Compile with Inductor, which fuses them: this compiler runs each kernel separately.",
            'model = torch.compile(model, backend="inductor")',
            needs=(Condition.COMPILED, Condition.LEFT_BY_COMPILER),
            unless=(Condition.GRAPHS,),
        ),
        Advice(
            "Compile with Inductor, which fuses them and keeps the CUDA graphs: this compiler runs "
            "each kernel separately.",
            'model = torch.compile(model, options={"triton.cudagraphs": True})',
            needs=(Condition.COMPILED, Condition.LEFT_BY_COMPILER, Condition.GRAPHS),
        ),
        Advice(
            "Find out why these kernels run outside the compiled code.",
            'TORCH_LOGS="graph_breaks,recompiles" python script.py',
            needs=(Condition.COMPILED,),
            unless=(Condition.LEFT_BY_COMPILER,),
        ),
        *fused_optimizers(Condition.ONE_BY_ONE),
        Advice("Use kernels that do all of it at once, such as fused norms and activations."),
    ),
)
def unfused_elementwise(context: Context) -> Finding | None:
    """Report kernels that only read and write memory, priced by what fusing saves."""
    chains, attention = (context.computing(each, saved=True) for each in ("chains", "attention"))
    share = context.computing_share("elementwise", context.blamed(chains.mean(axis=1)))
    has_chains = share > context.limits.elementwise_percent
    saved = attention + chains if has_chains else attention
    columns = ("attention", "chains") if has_chains else ("attention",)
    found = context.faster_kernels(
        unfused_elementwise, "fused kernels", saved, *columns, bound="at least"
    )
    if found is None:
        return None
    price, hidden_ns = found
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
        price=price,
        ranks=ranks,
        steps=context.steps_with(saved),
        conditions=[
            *_conditions(blamed, is_attention=names_attention),
            *((Condition.LEFT_BY_COMPILER,) if is_left_by_compiler(context) else ()),
        ],
        detail=if_host_kept_up(context, price, hidden_ns),
        evidence={
            "share_percent": share,
            "if_host_kept_up_ms": hidden_ns / NS_PER_MS,
            **numbers,
            **_tables(blamed),
        },
        links=(
            Link(panel="fusable_kernels", ranks=ranks),
            Link(panel="kernel_sequences", ranks=ranks),
        ),
        seen_in=Saving(columns),
    )


def is_left_by_compiler(context: Context) -> bool:
    """Whether most time in elementwise kernels is in compiled code that fuses none."""
    left, every = (context.computing(each).sum() for each in ("compiled", "elementwise"))
    return bool(left > LEFT_BY_COMPILER * every)


def _is_attention(context: Context, attention: Matrix, saved: Matrix) -> bool:
    """Whether attention alone is worth a finding, or accounts for most of the saving."""
    owns = bool(100 * attention.sum() >= context.limits.owner_percent * saved.sum())
    return owns or context.is_worth_it(
        unfused_elementwise, context.price(attention, context.shorter_kernels("attention")).ns
    )


def _of_attention(
    context: Context, ranks: tuple[int, ...], blamed: list[ComputeFacts], *, has_chains: bool
) -> tuple[str, dict[str, Evidence]]:
    """The words of the sentence on attention, and their numbers."""
    rows = [context.ranks.index(rank) for rank in ranks]
    whole_ns = context.computing("attention")[rows].mean()
    compute_ns = context.steps["compute"][rows].mean()
    attention_ns = sum(int(each.taken["attention"].sum()) for each in blamed)
    within, inside = within_module(
        context, [each.attention.modules for each in blamed], attention_ns
    )
    computing = f"{duration(compute_ns)} computing{context.steps.per_noun}"
    words = (
        f"Unfused attention (bmm + softmax + bmm) takes {duration(whole_ns)} of "
        f"{computing}{on_ranks(context, ranks)}{within}; "
        f"FlashAttention or SDPA{' and fused chains' if has_chains else ''} would save time"
    )
    times: dict[str, Evidence] = {
        "attention_ms": float(whole_ns) / NS_PER_MS,
        "computing_ms": float(compute_ns) / NS_PER_MS,
    }
    return words, times | inside


def _of_chains(
    context: Context, ranks: tuple[int, ...], blamed: list[ComputeFacts], share: float
) -> tuple[str, dict[str, Evidence]]:
    """The words of the sentence on chains, and their number besides the share."""
    longest = max(row.kernels for each in blamed for row in each.chains)
    in_chains = context.computing_share("chains", ranks)
    # 14.5 % stood above a proof with 5.9
    is_all = percent(in_chains) == percent(share)
    which = f"up to {longest} in a row"
    which = which if is_all else f"{percent(in_chains)} in chains of up to {longest}"
    words = (
        f"{percent(share)} of the compute time{on_ranks(context, ranks)} is in unfused "
        f"elementwise kernels, {which}; fusing them would save time"
    )
    return words, {"longest_chain": longest, "chains_percent": in_chains}


def _conditions(blamed: list[ComputeFacts], *, is_attention: bool) -> list[Condition]:
    """What holds for what the sentence names."""
    if not is_attention:
        return []
    refused = all(each.attention.is_math for each in blamed)
    return [Condition.ATTENTION, *([Condition.REFUSED_FUSION] if refused else ())]


def _tables(blamed: list[ComputeFacts]) -> dict[str, Evidence]:
    chains = max((each.chains for each in blamed), key=len)
    scores = max((each.attention.rows for each in blamed), key=len)
    tables: dict[str, Evidence] = {
        "chains": pd.DataFrame(
            [
                (in_words(row.names, row.kernels), row.times, row.total_ns / NS_PER_MS)
                for row in chains
            ],
            columns=["chain", "count", "ms"],
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


def fusable_kernels(job: Job, ranks: Sequence[int] = ()) -> pd.DataFrame:
    """List the kernels of some ranks (all by default) that one kernel could replace.

    There is a row for each chain of the same elementwise kernels, and for each score size of
    unfused attention, ordered by what fusing saves: ``kernels`` (in words), ``first_kernel`` (empty
    for attention), ``count`` (how often they run), ``total_ms``, and ``saved_ms`` (how much less
    time fused ones would take). Values are means over the ranks for one step or, without steps, for
    the recording. Fused attention saves at least the time that is not in products.
    """
    of_rank = job.remember(answers_of_all, Limits().trials).facts
    facts = [of_rank[rank].compute for rank in job.select_ranks(ranks)]
    steps = max(sum(each.step.size for each in facts), 1)
    found: dict[tuple[str, str], Int64Array] = {}

    def add(words: str, first: str, *values: int) -> None:
        found[words, first] = found.get((words, first), 0) + np.array(values, dtype=np.int64)

    for each in facts:
        for row in each.chains:
            words = in_words(row.names, row.kernels)
            add(words, row.names[0], row.times, row.total_ns, row.saved_ns)
        for scores, times, products_ns, others_ns in each.attention.rows:
            words = f"bmm → softmax → bmm, {scores.queries:,} queries × {scores.keys:,} keys"
            add(words, "", times, products_ns + others_ns, others_ns)
    rows = [
        (*key, times / steps, total_ns / steps / NS_PER_MS, saved_ns / steps / NS_PER_MS)
        for key, (times, total_ns, saved_ns) in found.items()
    ]
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return largest_first(table, "saved_ms")


def in_words(names: Sequence[str], kernels: int) -> str:
    """Write a chain of kernels in words.

    Examples
    --------
    >>> in_words(["add_bias", "gelu"], 3)
    'add_bias → gelu (3 kernels)'
    """
    words = map(kernel_does, names[:_WORDS])
    more = " → …" if len(names) > _WORDS else ""
    return f"{' → '.join(words)}{more} ({kernels:,} kernels)"
