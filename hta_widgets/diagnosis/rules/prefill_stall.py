"""Prompts hold up running requests of a server."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.server_steps import server_steps, stalls
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice, Finding, Link, Price
from hta_widgets.diagnosis.proof.what import WholeSteps
from hta_widgets.quantities import NS_PER_MS, duration, percent

_ENGINES: Final = (Condition.VLLM, Condition.SGLANG, Condition.TENSORRT_LLM)


@cause(
    seen_in="compute",
    when="Prompts delay the next token of running requests: once by five decode steps or more, "
    "and by 20 % of the time or more in all.",
    advice=(
        Advice(
            "Compute prompts in smaller chunks, within the decode steps: set a token budget for "
            "each step.",
            "vllm serve MODEL --max-num-batched-tokens 2048",
            needs=(Condition.VLLM,),
        ),
        Advice(
            "Compute prompts in smaller chunks, within the decode steps.",
            "python -m sglang.launch_server --model-path MODEL \\\n"
            "    --chunked-prefill-size 2048 --enable-mixed-chunk",
            needs=(Condition.SGLANG,),
        ),
        Advice(
            "Compute prompts in smaller chunks, within the decode steps: set "
            "enable_chunked_prefill, and a smaller max_num_tokens.",
            "echo 'enable_chunked_prefill: true' > chunked.yaml\n"
            "trtllm-serve MODEL --max_num_tokens 2048 \\\n"
            "    --extra_llm_api_options chunked.yaml",
            needs=(Condition.TENSORRT_LLM,),
        ),
        Advice(
            "Compute prompts in chunks that take about as long as a decode step, and together with "
            "it.",
            unless=_ENGINES,
        ),
        Advice(
            "Compute prompts on separate GPUs, and send their keys and values to the GPUs that "
            "decode (disaggregated prefill)."
        ),
    ),
)
def prefill_stall(context: Context) -> Finding | None:
    """Report how long running requests wait for prompts, per token that they get."""
    numbers = context.all_steps.numbers
    if context.steps.phase != "decode":
        return None
    table = server_steps(context.job).steps
    table = table[table["rank"].isin(context.ranks)]
    table = table[table["step"].between(min(numbers), max(numbers))]
    found = stalls(table)
    if not found:
        return None
    per_step_ns = np.array([found[e].per_step_ns if e in found else 0.0 for e in context.ranks])
    rank = context.ranks[int(np.argmax(per_step_ns))]
    most = found[rank]
    price = Price.counted(most.per_step_ns, "at most")
    if not context.is_worth_it(prefill_stall, price.ns):
        return None
    ranks = context.blamed(per_step_ns)
    prompts = table[(table["rank"] == rank) & table["step"].isin(most.steps)].sort_values("step")
    shown = prompts[["rank", "step", "phase", "context_requests", "context_tokens"]]
    added = percent(100 * price.ns / context.step_ns)
    return context.finding(
        prefill_stall,
        words=f"Prompts {most.words}; that delays tokens, but tokens per second stay the same",
        price=price,
        cost=f"up to {duration(price.ns)} per {most.per} on top of each "
        f"{duration(context.step_ns)} decode step ({added})",
        ranks=ranks,
        steps=most.steps,
        evidence={
            "longest_ms": int(most.taken_ns.max()) / NS_PER_MS,
            "decode_step_ms": most.decode_ns / NS_PER_MS,
            "decode_steps": most.decode_steps,
            "prompts": shown.assign(held_up_ms=most.taken_ns / NS_PER_MS).reset_index(drop=True),
        },
        links=(Link(panel="server_steps", ranks=ranks),),
        seen_in=WholeSteps(),
        seen_steps=most.steps,
    )
