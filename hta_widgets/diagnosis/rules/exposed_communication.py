"""Transfers that no computation hides."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.communication.kernels import P2P
from hta_widgets.analyses.communication.recorded import SEND_RECEIVE
from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.communication_facts import CommunicationFacts, Reason
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import SHARES_BUFFERS, Advice, Finding, Link, of_engines
from hta_widgets.diagnosis.job.health import missing_of
from hta_widgets.diagnosis.proof.what import Busy
from hta_widgets.diagnosis.replay.edits import CommunicationHidden
from hta_widgets.diagnosis.rules.slow_link import slow_link
from hta_widgets.diagnosis.rules.wording import listed, named, part_of_it, within_module
from hta_widgets.quantities import NS_PER_MS, duration, number

MOST_INCOMPLETE: Final = 0.5
"""If collectives with missing members have this fraction of the transfer, it may be waiting."""

MOST_IN_ONE: Final = 0.5
"""If the longest of several collectives in a step takes more than this fraction of their time, the
sentence says so: of ten all-gathers in 472 ms, that of the logits took 442 ms."""

_CONDITIONS: Final = {
    Reason.LATENCY: Condition.LATENCY,
    Reason.SAME_STREAM: Condition.SAME_STREAM,
    Reason.NOT_LAUNCHED: Condition.NOT_LAUNCHED,
    Reason.OPTIMIZER: Condition.OPTIMIZER_WAITS,
}


@cause(
    seen_in="transfer",
    limit="least_percent_in_every_job",
    when="Ranks transfer data and compute nothing meanwhile. Waiting for a late rank is not "
    "transfer.",
    advice=(
        Advice(
            "Open all ranks: waiting for ranks that are not open looks like transfer.",
            "hta-widgets diagnose path/to/all/traces",
            needs=(Condition.NOT_OPENED,),
        ),
        Advice(
            "Diagnose the Nsight Systems export that this table was made from: it has the kernels.",
            "nsys export --type sqlite report.nsys-rep",
            needs=(Condition.NO_KERNELS,),
        ),
        Advice(
            "Let DDP reduce gradients in buckets: now each gradient has its own operation.",
            "DistributedDataParallel(model, bucket_cap_mb=25)",
            needs=(Condition.ONE_EACH, Condition.DDP),
        ),
        Advice(
            "Let DDP reduce gradients in buckets: the compiled code reduces each gradient "
            "separately.",
            "model = DistributedDataParallel(model)\n"
            "model = torch.compile(model, ...)  # as before",
            needs=(Condition.ONE_EACH, Condition.COMPILED),
            unless=(Condition.DDP,),
        ),
        Advice(
            "Reduce gradients in buckets: now each gradient has its own operation.",
            "flat = torch.cat([each.grad.flatten() for each in parameters])\n"
            "dist.all_reduce(flat)\n"
            "sizes = [each.numel() for each in parameters]\n"
            "for each, part in zip(parameters, flat.split(sizes)):\n"
            "    each.grad.copy_(part.view_as(each))",
            needs=(Condition.ONE_EACH,),
            unless=(Condition.DDP, Condition.COMPILED),
        ),
        Advice(
            "Record all ranks at the same time: waiting for missing ranks looks like transfer.",
            needs=(Condition.OTHER_RANKS,),
        ),
        Advice(
            "Record which collective each kernel belongs to, to tell waiting from transfer: use "
            "PyTorch 2.4 or newer, and ProfilerActivity.CPU.",
            needs=(Condition.NO_COLLECTIVES,),
        ),
        *of_engines(
            "Put copies of popular experts on several ranks: a different rank is late each time.",
            "vllm serve MODEL --enable-expert-parallel --enable-eplb",
            "python -m sglang.launch_server --enable-eplb",
            needs=(Condition.TAKE_TURNS, Condition.MOE, Condition.SERVER),
        ),
        SHARES_BUFFERS._replace(needs=(Condition.DDP, Condition.BROADCASTS_BUFFERS)),
        Advice(
            "Send fewer, larger messages: DDP's buckets are small and bound by latency.",
            "DistributedDataParallel(model, bucket_cap_mb=100)",
            needs=(Condition.DDP, Condition.LATENCY),
            unless=(Condition.EXCHANGES,),
        ),
        *of_engines(
            "Split the batch in two: one half computes while the other exchanges tokens with its "
            "experts.",
            "vllm serve MODEL --enable-dbo",
            "python -m sglang.launch_server --enable-two-batch-overlap",
            needs=(Condition.EXPERTS,),
            unless=(Condition.LATENCY,),  # which is what is left if two halves overlap already
        ),
        Advice(
            "Split the batch in two: one half computes while the other exchanges tokens with its "
            "experts.",
            needs=(Condition.EXPERTS,),
            unless=(Condition.VLLM, Condition.SGLANG, Condition.LATENCY),
        ),
        *of_engines(
            "Exchange tokens with low-latency kernels, which are made for few tokens.",
            "vllm serve MODEL --all2all-backend deepep_low_latency",
            "python -m sglang.launch_server --moe-a2a-backend deepep",
            needs=(Condition.EXPERTS, Condition.LATENCY),
        ),
        *of_engines(
            "Split the model over fewer GPUs, or reduce in one hop over NVLink: each layer waits "
            "for its all-reduce, which nothing can hide.",
            "vllm serve MODEL  # without --disable-custom-all-reduce",
            "python -m sglang.launch_server  # without --disable-custom-all-reduce",
            needs=(Condition.SERVER,),
            unless=(Condition.EXPERTS,),
        ),
        Advice(
            "Send fewer, larger messages: these are so small that they are bound by latency.",
            needs=(Condition.LATENCY,),
            unless=(Condition.DDP, Condition.SERVER),
        ),
        Advice(
            "Communicate on a separate stream: nothing on the same stream can compute meanwhile.",
            "work = dist.all_reduce(x, async_op=True)\n...  # other work\nwork.wait()",
            needs=(Condition.SAME_STREAM,),
            unless=(Condition.SERVER,),
        ),
        Advice(
            "Launch the next work before the transfer ends: do not wait for the transfer on the "
            "host.",
            needs=(Condition.NOT_LAUNCHED,),
        ),
        Advice(
            "Keep sharded what the longest all-gather collects, as is possible for logits: each "
            "rank samples, or computes the loss, from its own part.",
            "ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)",
            needs=(Condition.GATHERS_ONE,),
            unless=(Condition.FSDP1, Condition.FSDP2),
        ),
        Advice(
            "Let FSDP gather the next parameters before they are needed.",
            "FullyShardedDataParallel(model, forward_prefetch=True)",
            needs=(Condition.FSDP1, Condition.GATHERS),
            unless=(Condition.FSDP2,),
        ),
        Advice(
            "Let FSDP gather the next parameters before they are needed.",
            "block.set_modules_to_forward_prefetch([next_block])",
            needs=(Condition.FSDP2, Condition.GATHERS),
        ),
        Advice(
            "Make DDP's buckets smaller: nothing hides the last one, and the optimizer waits for "
            "it.",
            "DistributedDataParallel(model, bucket_cap_mb=10)",
            needs=(Condition.DDP, Condition.OPTIMIZER_WAITS),
            unless=(Condition.EXCHANGES,),
        ),
        Advice(
            "Reduce gradients in smaller pieces, each as soon as it is computed.",
            needs=(Condition.OPTIMIZER_WAITS,),
            unless=(Condition.DDP,),
        ),
        Advice(
            "Try other DDP bucket sizes: nothing hides the last bucket, and small ones are bound "
            "by latency.",
            "DistributedDataParallel(model, bucket_cap_mb=50)",
            needs=(Condition.DDP,),
            unless=(Condition.OPTIMIZER_WAITS, Condition.LATENCY, Condition.EXCHANGES),
        ),
        Advice(
            "Send gradients in 16 bits.",
            "model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
            needs=(Condition.DDP,),
            unless=(Condition.EXCHANGES,),
        ),
        Advice(
            "Start the exchange before layers that do not need its result, such as the dense ones, "
            "and wait for it after them.",
            needs=(Condition.EXCHANGES, Condition.EMBEDDINGS),
        ),
        Advice(
            "Start the exchange before other work, and wait where its result is needed.",
            needs=(Condition.EXCHANGES, Condition.DDP),
            unless=(Condition.EMBEDDINGS,),
        ),
        Advice(
            "Start the communication before other work, and wait where its result is needed.",
            "work = dist.all_reduce(x, async_op=True)\n...  # other work\nwork.wait()",
            unless=(
                *(Condition.DDP, Condition.FSDP1, Condition.FSDP2),
                *(Condition.SAME_STREAM, Condition.SERVER),
            ),
        ),
        Advice(
            "Shard parameters within each node only, so that less crosses the network.",
            "within = ShardingStrategy.HYBRID_SHARD\n"
            "FullyShardedDataParallel(model, sharding_strategy=within)",
            needs=(Condition.FSDP1,),
            unless=(Condition.FSDP2,),
        ),
        Advice(
            "Shard parameters within each node only, so that less crosses the network.",
            'mesh = init_device_mesh("cuda", (nodes, gpus_of_a_node))\n'
            "fully_shard(block, mesh=mesh)",
            needs=(Condition.FSDP2,),
        ),
        Advice(
            "Communicate less often: use a larger batch on each rank, or accumulate gradients over "
            "several batches.",
            "with model.no_sync():\n    ...",
            needs=(Condition.TRAINING, Condition.DDP),
        ),
        Advice(
            "Communicate less often: use a larger batch on each rank.",
            needs=(Condition.TRAINING,),
            unless=(Condition.DDP,),
        ),
        Advice(
            "Serve more concurrent requests, so that there is more to compute for each transfer.",
            needs=(Condition.SERVER,),
        ),
    ),
)
def exposed_communication(context: Context) -> Finding | None:
    """Report the transfers during which the GPUs do nothing else."""
    transfer = context.steps["transfer"] + context.steps["transfer_p2p"]
    if not transfer.size:
        return None
    slow = context.edits_of([slow_link])
    price = context.price(transfer, CommunicationHidden(), bound="at most", after=slow)
    if not context.is_worth_it(exposed_communication, price.ns):
        return None
    table = _by_group(context)
    is_doubtful = _is_doubtful(context)
    facts = [context.facts[rank].communication for rank in context.ranks]
    whole_ns = sum(int(each.transfer_ns.sum()) for each in facts)
    reasons = _reasons(facts, whole_ns)
    within, inside, reason, why = "", dict[str, float](), None, ""
    if not is_doubtful and not table.empty:
        within, inside = within_module(context, [each.modules for each in facts], whole_ns)
        part = reasons["percent"].max()
        if part >= context.limits.owner_percent:
            reason = Reason[reasons["reason"].iloc[0]]
            why = f", {part_of_it(part / 100)} {reason.value}"
    return context.finding(
        exposed_communication,
        words=_words(context, table, float(transfer.mean()), is_doubtful=is_doubtful),
        detail=within + why,
        price=price,
        ranks=context.ranks,
        steps=context.steps.marked,
        evidence={
            "groups": table,
            "transfer_ms": float(transfer.mean()) / NS_PER_MS,
            "reasons": reasons,
            **inside,
        },
        links=(Link(panel="collectives"), Link(panel="overlap")),
        seen_in=Busy(("transfer", "transfer_p2p")),
        confidence="inconclusive" if is_doubtful else "measured",
        conditions=_conditions(table, reason, context.conditions()),
    )


_OF_EXPERTS: Final = re.compile(r"\b(?:dispatch|combine)\b")
"""Names of kernels that send tokens to their experts and back, such as DeepEP's."""

_EXCHANGE: Final = re.compile(r"all_?to_?all|sends? and receives?|send_?recv")
"""Operations in which ranks exchange data: in a model with experts, tokens for them. Of 13.8 ms in
the exchanges of a recommender, 0.6 were DDP's, whose buckets were to be smaller."""


def is_exchange(operation: str) -> bool:
    """Whether ranks exchange data in an operation, rather than reduce or gather it."""
    return bool(_EXCHANGE.search(operation))


def _conditions(
    table: pd.DataFrame, reason: Reason | None, known: Collection[Condition] = ()
) -> Iterator[Condition]:
    """What holds for the operation with most of the exposed transfer, and why it is exposed."""
    operation = "" if table.empty else table["operation"].iloc[0]
    if "broadcast" in operation:
        yield Condition.BROADCASTS_BUFFERS
    if "gather" in operation:
        yield Condition.GATHERS
        if _is_of_one(table.iloc[0]):
            yield Condition.GATHERS_ONE
    if is_exchange(operation):
        yield Condition.EXCHANGES
    may_be_tokens = is_exchange(operation) and "send" not in operation  # sends: of a pipeline, too
    if (may_be_tokens and Condition.MOE in known) or _OF_EXPERTS.search(operation):
        yield Condition.EXPERTS
    if reason in _CONDITIONS:
        yield _CONDITIONS[reason]


def _reasons(facts: Sequence[CommunicationFacts], whole_ns: int) -> pd.DataFrame:
    """Why nothing computes during the transfers, over all ranks, most frequent reason first."""
    sums = {reason: sum(each.reasons.get(reason, 0) for each in facts) for reason in Reason}
    rows = [(each.name, 100 * ns / whole_ns) for each, ns in sums.items() if ns]
    table = pd.DataFrame(rows, columns=["reason", "percent"])
    return largest_first(table, "percent")


def _words(context: Context, table: pd.DataFrame, transfer_ns: float, *, is_doubtful: bool) -> str:
    per_noun = context.steps.per_noun
    words = f"{duration(transfer_ns)} of communication{per_noun} is exposed"
    if not table.empty:
        most = table.iloc[0]
        said = {P2P: "sends", SEND_RECEIVE: "sends and receives"}
        what = said.get(most["operation"]) or named(most["operation"].partition("<")[0])
        count = f"{most['count_per_step']:.3g}"
        speed = most["busbw_gb_per_s"]
        at = "" if np.isnan(speed) else f", {number(speed)} GB/s"
        if _is_of_one(most):
            at += f"; {duration(most['longest_ms'] * NS_PER_MS)} in the longest"
        words += (
            f", mostly {count} {what}{per_noun} ({duration(most['exposed_ms'] * NS_PER_MS)}{at})"
        )
    if is_doubtful:
        missing = missing_of(context.job)
        lack = "open" if context.job.unopened_ranks else "recorded"
        whom = f"without a trace ({listed(missing)})" if missing else f"that are not {lack}"
        words += f"; part of it may be waiting for ranks {whom}"
    return words


def _is_of_one(kind: pd.Series) -> bool:
    """Whether one of several collectives of a kind in a step holds most of their time."""
    is_one_of_several = round(kind["count_per_step"]) > 1
    return bool(is_one_of_several and kind["longest_ms"] > MOST_IN_ONE * kind["exposed_ms"])


def _is_doubtful(context: Context) -> bool:
    """Whether most of the transfer is in collectives with missing members."""
    traffic = context.traffic
    every = traffic.in_cells(traffic.exposed_transfer_ns, traffic.is_in_steps).sum()
    incomplete = traffic.is_in_steps & ~traffic.waits.is_complete
    lacking = traffic.in_cells(traffic.exposed_transfer_ns, incomplete).sum()
    return bool(every and lacking >= MOST_INCOMPLETE * every)


def _by_group(context: Context) -> pd.DataFrame:
    """Exposed transfer by operation and group, most first, for the mean rank and step."""
    traffic = context.traffic
    cells = len(context.ranks) * len(context.steps.numbers)
    speeds = traffic.busbw_gb_per_s
    kinds = [
        (each.operation, "" if each.operation == P2P else each.group) for each in traffic.series
    ]
    rows = []
    for kind in dict.fromkeys(kinds):
        chosen = traffic.is_in_steps & np.array([each == kind for each in kinds])
        exposed = traffic.in_cells(traffic.exposed_transfer_ns, chosen).sum()
        count = traffic.in_cells(np.ones_like(traffic.place), chosen).sum()
        known = speeds[chosen & ~np.isnan(speeds)]
        if exposed:
            speed = float(np.median(known)) if known.size else float("nan")
            longest = traffic.in_cells(traffic.exposed_transfer_ns, chosen, np.maximum).sum()
            times = (each / cells / NS_PER_MS for each in (exposed, longest))
            rows.append((*kind, count / cells, *times, speed))
    names = ["operation", "group", "count_per_step", "exposed_ms", "longest_ms", "busbw_gb_per_s"]
    table = pd.DataFrame(rows, columns=names)
    return largest_first(table, "exposed_ms")
