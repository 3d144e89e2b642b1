"""What to try if the GPU is the bottleneck: each line rests on what is recorded about its kernels.

Causes in kernels that cost less than their limits come first, priced by replay. Then comes what
their rates show, and finally the kernel with the most time, about which nothing better may be
known.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.device_steps import calls_around
from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.analyses.launch_facts.alike import Multiprocessors, multiprocessors
from hta_widgets.analyses.roofline import operator_label, over_ranks, roofline
from hta_widgets.analyses.roofline.counted import IN_GRAPHS, REASONS
from hta_widgets.analyses.roofline.formulas import ATTENTION, MOVING, PRODUCTS, inputs_of
from hta_widgets.analyses.roofline.peaks import GIGA, TERA
from hta_widgets.analyses.server_steps import server_steps
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.rows import Row, largest_first, records
from hta_widgets.analyses.time.selection import TimeSelection, selected_work
from hta_widgets.analyses.time.tensor_cores import is_product
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.cause import Cause, cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.compute_facts import HALF_TYPES, operator_cost
from hta_widgets.diagnosis.facts.conditions import Condition, holding
from hta_widgets.diagnosis.facts.gpus import Gpu
from hta_widgets.diagnosis.facts.kernel_facts import (
    EXPERT_KERNELS,
    NORMS_IN_TRAINING,
    as_called,
    as_in_training_ns,
    operators_of,
)
from hta_widgets.diagnosis.finding import (
    Advice,
    Evidence,
    Finding,
    Link,
    Price,
    of_engines,
    other_kernels,
)
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.profile_command import advice_to_profile
from hta_widgets.diagnosis.proof.what import NamedKernels
from hta_widgets.diagnosis.replay.critical_path import THE_GPU
from hta_widgets.diagnosis.rules.layout_transposes import layout_transposes
from hta_widgets.diagnosis.rules.no_tensor_cores import no_tensor_cores
from hta_widgets.diagnosis.rules.slow_shape import slow_shape
from hta_widgets.diagnosis.rules.unfused_elementwise import is_left_by_compiler, unfused_elementwise
from hta_widgets.diagnosis.rules.wording import link_of_kernels, named
from hta_widgets.grouping import grouped
from hta_widgets.names.readable import distinct_labels, readable_name
from hta_widgets.quantities import NS_PER_MS, counted, data_size, duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Fits
from hta_widgets.trace.model.kernels import KernelType, type_by_name
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import GRAPH_CALL, joined_replays

WORTH_TRYING: Final = Limits(least_percent=1.0, least_percent_in_every_job=1.0)
"""If nothing else is left, smaller gains are worth a line."""

LITTLE_PERCENT: Final = 25.0
"""If what is sure to be gained is less than this share of the step, the largest kernels are listed,
too. A pause of unknown cause with 28.6 % of it hid the only kernel, with 60 %."""

GAIN_OF_SHARE: Final = 0.1
"""Part of the time that other kernels may save of what a line without a price is about, to sort the
lines."""

FEW_BLOCKS: Final = 0.5
"""If the largest kernel has blocks for less than this fraction of the multiprocessors, most of them
have no work: in a job with a kernel of 10 blocks on a GPU with 28, nothing stood out."""

WARP: Final = 32
"""Threads that run in lockstep, or half of them on AMD's larger GPUs: in a smaller block, lanes
stay empty. A vector addition by 1 block of 1 thread took 51 s on an A100."""

LOW_OCCUPANCY: Final = 25.0
"""If a kernel of the program's own keeps a smaller percentage of the threads of a multiprocessor
busy, it is said what keeps more of its blocks out. Its name is in no library: their products are
written for few threads. A kernel with 188 registers/thread, 12.5 %, took 86 % of the time."""

LONG_NS: Final = 1_000_000_000
"""From this mean length of a launch, its profile takes minutes: Nsight Compute repeats each launch
about 40 times, and three of 50 s were to be profiled."""

LONGER: Final = 5
"""Ratio to the median from which a launch of the largest kernel is long."""

ONE_LONG: Final = 0.25
"""Fraction of the kernel's time in long launches from which the line says so: one of 20 launches of
a batch norm took 307 of 845 µs."""

LEAST_SHARE: Final = 5.0
"""Share of the kernel time (%) above which kernels of a kind are worth a line, and share of the
step above which copies are."""

_WITHIN_GPU: Final = rf".*(?:{patterns.WITHIN_GPU.pattern}).*"

_NO_COPYING: Final = r"^(?!aten::(?:copy_|clone|contiguous|reshape|to|_to_copy)$)"
"""Matches operators that do more than copy: otherwise all of 766 copies per step are "in
aten::copy_"."""

MOVING_SHARE: Final = 25.0
"""Share of the kernel time (%) above which operators that only read and write memory are worth a
line if no chain of them is: a ResNet spent 60 % in norms, activations and additions."""

ATTENTION_SHARE: Final = 10.0
"""Share of the kernel time (%) above which fused attention is worth a line, if it is slow."""

SLOW_ATTENTION: Final = 50.0
"""Share of the peak (%) below which other kernels may be faster: 29 % of a transformer, at 23 % of
the peak, had no line."""

EXPERTS_SHARE: Final = 25.0
"""Share of the compute time (%) above which the kernels of a mixture of experts are worth a line:
in GPT-OSS on an MI300X, two of them take 78.6 %, and nothing said that they belong together."""

_OF_TRITON: Final = re.compile(r"^(?!triton_).*(?:matmul_ogs|fused_moe_kernel)")
"""Kernels of experts that vLLM and SGLang take from Triton by default; Inductor writes ``triton_``
before its own."""

_OF_AITER: Final = re.compile(r"ck_tile")
"""Kernels of AITER, such as its norms: if they run, it is on, and has none for these experts."""

_NAMED: Final = 3

FEW_REQUESTS: Final = 64
"""Most requests in a decode step for which more rows cost little, whatever the shapes."""

PRODUCTS_SHARE: Final = 50.0
"""Share of the compute time (%) in products above which that is worth a line if no shapes are
recorded, as in CUDA graphs."""

_GEMV: Final = re.compile(r"gemv", re.IGNORECASE)
"""Products of a matrix and a vector. Two kernels of them took 61.7 and 32.5 % of a step of Llama in
a CUDA graph, and all that was said is that the shapes of the first are not recorded."""

NEAR_ROOF: Final = 60.0
"""Share of the peak (%) that large products of the libraries usually reach: of 13 large bf16 shapes
on H100 and MI300X, the better half reach 57 to 69 %."""

_OLDER: Final = re.compile(r"\bflash_(?:fwd|bwd)\w*_kernel\b")
"""Kernels of FlashAttention-2; later versions have other names."""

_HOPPER: Final = (9, 10)
"""Compute capabilities whose tensor cores FlashAttention-2 does not support."""

_OF_HOPPER: Final = re.compile(r"\bnvjet_|_sm90_|\bsm90_")
"""Kernels of CUDA's libraries for these, used if an export does not describe its GPUs: for
attention with half of the time, the diagnosis said only that the trace cannot tell."""

_BYTES: Final = {"bf16": 2, "fp16": 2}

_COLUMNS: Final = ["operator", "input_dims", "dtype", "calls", "gpu_ms", "tflops"]


class Rates(NamedTuple):
    """What is known about the matrix products of a job, in the steps that count."""

    products: pd.DataFrame
    """Matrix products by shape, with a peak: rows of `over_ranks`."""
    attention: pd.DataFrame
    """The same for compute-bound fused attention."""
    moving: pd.DataFrame
    """Operators that only read and write memory, longest first: ``operator``, ``gpu_ns``."""
    kernel_ns: float
    """Time of all kernels."""
    in_graphs_ns: float
    """Time of the kernels that a CUDA graph launched, whose shapes are not recorded."""

    def share(self, gpu_ns: float) -> float:
        """A time in percent of that of all kernels."""
        return 100 * gpu_ns / self.kernel_ns if self.kernel_ns else 0.0


@asked_once
def rates_of(job: Job, ranks: tuple[int, ...], steps: tuple[int, ...]) -> Rates:
    """The rates of some ranks and steps."""
    found = roofline(job, ranks, steps=steps)
    table = over_ranks(found.operators)
    is_known = table["percent_of_peak"] > 0
    products = table[is_known & table["operator"].isin(PRODUCTS)]
    is_known &= table["bound"] == "compute"
    attention = table[is_known & table["operator"].isin(ATTENTION)]
    columns = ["operator", "gpu_ns"]
    every = pd.concat([table[columns], found.uncounted[columns]])  # shapes known or not
    moving = every[every["operator"].isin(MOVING)].groupby("operator", as_index=False).sum()
    moving = largest_first(moving, "gpu_ns")
    in_graphs = found.uncounted[found.uncounted["reason"] == REASONS[IN_GRAPHS]]
    kernel_ns = float(found.devices["kernel_ns"].sum())
    return Rates(products, attention, moving, kernel_ns, float(in_graphs["gpu_ns"].sum()))


@dataclass(frozen=True, eq=False)
class GpuBound:
    """A job in which the GPU is the bottleneck."""

    context: Context
    """What the rules of the diagnosis worked on."""
    finds_little: bool
    """Whether the findings gain so little that the kernels are the answer."""

    @classmethod
    def of(cls, context: Context, findings: Sequence[Finding], joint_ms: float) -> GpuBound | None:
        """Make one from the findings that are sure; None if something else is the bottleneck."""
        gain_ms = max([joint_ms, *(each.recoverable_ms for each in findings)])
        is_little = 100 * gain_ms * NS_PER_MS < LITTLE_PERCENT * context.step_ns
        sets_pace = next(iter(context.replay.shares), "")
        return cls(context, is_little) if sets_pace == THE_GPU else None

    @cached_property
    def to_try(self) -> tuple[Finding, ...]:
        """What to try, the best first; at least one line if kernels ran and nothing else helps.

        What a finding advises is not advised again. Next to findings that gain much, only what has
        a price, or is known to be slow, is listed, such as attention with 53 % of the compute time.
        """
        own = replace(self.context, limits=WORTH_TRYING, hidden=[], found={**self.context.found})
        given = {each.do for found in own.found.values() for each in found.advice}
        lines = []
        looks = (*_PRICED, *(BY_RATE if self.finds_little else _KNOWN_SLOW))
        for look in (largest_kernel,) if hide_kernels(own) else looks:
            if look in own.found or (line := look(own)) is None:
                continue
            is_much = look is not attention or line.evidence["share_percent"] >= LITTLE_PERCENT
            is_idle = look is not largest_kernel or "multiprocessors" in line.evidence
            has_price = look is not few_rows or line.recoverable_ms > 0
            if self.finds_little or (is_much and is_idle and has_price):
                own.found[look] = line
                if others := tuple(each for each in line.advice if each.do not in given):
                    lines.append(replace(line, advice=others))
        return tuple(sorted(lines, key=worth, reverse=True))


def worth(line: Finding) -> tuple[bool, float]:
    """Percent of the step to gain; of lines without a price, guessed from their share of the time.

    The largest kernel is the last, as all that is advised is to profile it.
    """
    is_last = line.cause == largest_kernel.name
    # 2.2 % in float32 stood above operators that only move memory, with 54.4 %
    share = line.evidence.get("share_percent", 0)
    guess = GAIN_OF_SHARE * share if isinstance(share, float) else 0.0
    return not is_last, line.percent or guess


@asked_once
def whole_graphs_ns(job: Job, ranks: tuple[int, ...], steps: tuple[int, ...]) -> Int64Array:
    """How long each launch of a CUDA graph takes that was recorded without its kernels."""
    selection = TimeSelection.of(job, ranks, steps=steps)
    return np.concatenate([*job.reduce(_whole_graphs_ns, ranks, selection).values()])


def _whole_graphs_ns(rank: Rank, selection: TimeSelection | None) -> Int64Array:
    work = GpuWork.joined(selected_work(rank, selection).values())
    graphs = work.take(np.flatnonzero(work.type == KernelType.CUDA_GRAPH))
    return graphs.duration_ns


def hide_kernels(context: Context) -> bool:
    """Whether such graphs take most of the compute time.

    Of 7.81 s in ten graphs, "63.2 % of the compute time" was said of a kernel of 5 µs next to them.
    """
    graphs_ns = int(whole_graphs_ns(*context.analysed).sum())
    if not graphs_ns:
        return False
    kernels = kernels_by_name(*context.analysed)
    return graphs_ns > int(kernels["gpu_ns"].sum())


@asked_once
def kernels_by_name(job: Job, ranks: tuple[int, ...], steps: tuple[int, ...]) -> pd.DataFrame:
    """Computing kernels of some ranks and steps by name, longest first, as from `launch_facts`."""
    every = launch_facts(job, ranks, steps=steps).kernels
    computes = [type_by_name(name) is KernelType.COMPUTATION for name in every["name"]]
    kernels = every[np.array(computes, dtype=np.bool_)]  # of a table without kernels, no column
    groups = kernels.sort_values("gpu_ns", ascending=False, kind="stable").groupby("name")
    most = groups[[*_LAUNCHED]].first()
    table = groups[["count", "gpu_ns"]].sum().join(most)
    return table.sort_values("gpu_ns", ascending=False, kind="stable").reset_index()


_LAUNCHED: Final = (
    *("occupancy_percent", "tensor_core", "blocks", "threads", "sms"),
    *("registers", "shared_bytes"),
)


def kernels_in(rank: Rank, selection: TimeSelection | None, fits: Fits) -> GpuWork:
    """Whole kernels whose names fit, among those that run partly in the selected time of a rank."""
    parts = GpuWork.joined(selected_work(rank, selection).values())
    work = rank.gpu_work
    return work.take(np.flatnonzero(work.named(fits) & np.isin(work.rows, parts.rows)))


def labels_in_job(
    job: Job, ranks: Sequence[int], names: Sequence[str], width: int = 48
) -> list[str]:
    """Label kernels by their names: alike in sentences, tables and charts of the same ranks."""
    every = dict.fromkeys(chain.from_iterable(job.reduce(_names_in_use, ranks).values()))
    return distinct_labels(names, width, among=every)


def _names_in_use(rank: Rank) -> tuple[str, ...]:
    return rank.gpu_work.names_in_use


_UNKNOWN: Final = Price.counted(0.0)


def _line(
    context: Context,
    what: Cause,
    words: str,
    *,
    conditions: Iterable[Condition] = (),
    detail: str = "",
    evidence: dict[str, Evidence] | None = None,
    panel: str = "kernel_breakdown",
    seen_in: NamedKernels,
    marked: frozenset[str] = frozenset(),
    price: Price = _UNKNOWN,
) -> Finding:
    """Make a line; most have no price, because what another kernel would take is not known.

    The panel marks what the line is seen in, unless other names are given.
    """
    names = tuple(sorted(marked or seen_in.operators or seen_in.names))
    link = Link(panel=panel, ranks=context.ranks, names=names)
    of_kernels = panel == "kernel_breakdown"
    return context.finding(
        what,
        words=words,
        detail=detail,
        price=price,
        ranks=context.ranks,
        steps=(),
        conditions=conditions,
        evidence=evidence,
        links=(link_of_kernels(context.ranks, names) if of_kernels else link,),
        seen_in=seen_in,
    )


@cause(
    seen_in="compute",
    when="Attention runs in FlashAttention-2 kernels on a GPU of compute capability 9 or 10, whose "
    "tensor cores they do not fully use. Or fused attention takes 10 % of the kernel time and "
    "reaches less than half of the peak.",
    advice=(
        Advice(
            "Try Composable Kernel's attention.",
            'torch.backends.cuda.preferred_rocm_fa_library("ck")',
            needs=(Condition.AMD, Condition.SDPA),
        ),
        Advice(
            "Use cuDNN attention, which has kernels for this GPU.",
            "from torch.nn.attention import SDPBackend, sdpa_kernel\n\n"
            "with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):\n    ...",
            needs=(Condition.SDPA,),
            unless=(Condition.AMD,),
        ),
        Advice(
            "Use FlashAttention-3, which is made for this GPU.",
            needs=(Condition.OLDER_ATTENTION,),
        ),
        Advice(
            "Compute less of it: if the kernel knows of a causal mask or a window, it skips what "
            "is masked.",
            unless=(Condition.OLDER_ATTENTION,),
        ),
    ),
)
def attention(context: Context) -> Finding | None:
    """Report attention that does not use the tensor cores of the GPU as it could."""
    if (older := _older_attention(context)) is not None:
        return older
    rates = rates_of(*context.analysed)
    share = rates.share(float(rates.attention["gpu_ns"].sum()))
    if share < ATTENTION_SHARE or (reached := _reached(rates.attention)) >= SLOW_ATTENTION:
        return None
    most = records(rates.attention)[0]
    return _line(
        context,
        attention,
        f"Fused attention takes {percent(share)} of the kernel time and reaches {percent(reached)} "
        f"of the peak; the longest, {operator_label(most)}, reaches "
        f"{percent(most['percent_of_peak'])}",
        evidence={
            "share_percent": share,
            "reached_percent": reached,
            "products": _listed(rates.attention),
        },
        panel="roofline",
        seen_in=NamedKernels(operators=frozenset(rates.attention["operator"])),
    )


def _older_attention(context: Context) -> Finding | None:
    """Report FlashAttention-2 kernels on GPUs that it does not support fully."""
    gpu = _gpu(context)
    kernels = kernels_by_name(*context.analysed)
    made_for = f"GPUs before compute capability {gpu.major}.{gpu.minor}"
    if not gpu.major and kernels["name"].str.contains(_OF_HOPPER).any():
        made_for = "older GPUs than this one"
    elif gpu.major not in _HOPPER:
        return None
    older = kernels[kernels["name"].str.contains(_OLDER)]
    share = _part(older, kernels)
    if share < LEAST_SHARE:
        return None
    return _line(
        context,
        attention,
        f"FlashAttention-2 takes {percent(share)} of the compute time; it was made for {made_for}",
        conditions=(Condition.OLDER_ATTENTION,),
        evidence={"share_percent": share},
        seen_in=NamedKernels(names=frozenset(older["name"])),
    )


@cause(
    seen_in="compute",
    when="Large matrix products take 5 % of the kernel time. The line says how close they come to "
    "the peak of their type, and whether a faster type is left.",
    advice=(
        Advice(
            "Pad the dimension (batch, vocabulary, width) to a multiple of 64, or at least of 8.",
            "vocabulary = (vocabulary + 63) // 64 * 64",
            needs=(Condition.UNEVEN,),
        ),
        *other_kernels(Condition.NEAR_ROOF),
        *of_engines(
            "Serve the model in FP8: its peak is twice as high on this GPU.",
            "vllm serve MODEL --quantization fp8",
            "python -m sglang.launch_server --model-path MODEL --quantization fp8",
            needs=(Condition.FP8,),
        ),
        Advice(
            "Try FP8 for these products: its peak is twice as high on this GPU.",
            "from torchao.float8 import convert_to_float8_training\n\n"
            "convert_to_float8_training(model)",
            needs=(Condition.FP8, Condition.TRAINING),
        ),
        Advice(
            "Try FP8 for these products: its peak is twice as high on this GPU.",
            "from torchao import quantization\n\n"
            "fp8 = quantization.Float8DynamicActivationFloat8WeightConfig()\n"
            "quantization.quantize_(model, fp8)",
            needs=(Condition.FP8,),
            unless=(Condition.TRAINING, Condition.SERVER),
        ),
        Advice(
            "They run close to the peak of their type: only less work would help.",
            needs=(Condition.NEAR_ROOF,),
        ),
    ),
)
def large_products(context: Context) -> Finding | None:
    """Say how close compute-bound products come to the peak, and what is left to try."""
    rates = rates_of(*context.analysed)
    products = rates.products[rates.products["bound"] == "compute"]
    if products.empty:
        return None
    by_type = products.groupby("dtype")["gpu_ns"].sum()
    kind = str(by_type.idxmax())
    products = products[products["dtype"] == kind]
    gpu_ns = float(by_type.max())
    share = rates.share(gpu_ns)
    if share < LEAST_SHARE:
        return None
    if no_tensor_cores in context.found and kind not in HALF_TYPES:
        return None  # it says what is faster; "close to the peak of their type" contradicted it
    reached = _reached(products)
    most = records(products)[0]
    shape = most["operator"], most["input_dims"], most["input_types"]
    uneven = kind in HALF_TYPES and operator_cost(*shape).uneven
    gpu = _gpu(context)
    has_fp8 = kind in HALF_TYPES and gpu.peak is not None and "fp8" in gpu.peak.tflops
    held = {
        Condition.UNEVEN: bool(uneven),
        Condition.NEAR_ROOF: reached >= NEAR_ROOF,
        Condition.FP8: has_fp8,
    }
    why = f"; {uneven} is not a multiple of 8" if uneven else ""
    every = rates.share(float(context.computing("product").sum()))
    # those of a compiled graph have no shapes: 6 % of the kernel time were known, of 66
    known = f" of known shapes (all products: {percent(every)})" if 2 * share < every else ""
    return _line(
        context,
        large_products,
        f"{kind} matrix products{known} take {percent(share)} of the kernel time and reach "
        f"{percent(reached)} of the peak; the longest, {operator_label(most)}, reaches "
        f"{percent(most['percent_of_peak'])}{why}",
        conditions=holding(held),
        evidence={
            "share_percent": share,
            "reached_percent": reached,
            "products": _listed(products),
        },
        panel="roofline",
        seen_in=NamedKernels(operators=frozenset(products["operator"])),
    )


@cause(
    seen_in="compute",
    when="Matrix products of few rows take 5 % of the kernel time and wait for their weights: more "
    "rows cost little, up to the number from which products would wait for the tensor cores. "
    "Below 60 % of the memory bandwidth, they cost what all of it would save. "
    "Or, if no shapes are recorded, half of the compute time is in products of a matrix and a "
    "vector; or in any products, where a server decodes for at most 64 requests in each step.",
    advice=(
        *other_kernels(Condition.NEAR_ROOF, Condition.NO_SHAPES)[:1],
        Advice(
            "Serve more concurrent requests: extra rows are nearly free.",
            needs=(Condition.SERVER,),
        ),
        Advice(
            "Quantise the weights, as reading them takes the time; or process several sequences "
            "at once, for which they are read once.",
            "from torchao import quantization\n\n"
            "quantization.quantize_(model, quantization.Int8WeightOnlyConfig())",
            needs=(Condition.ONE_ROW,),
            unless=(Condition.TRAINING, Condition.NO_PYTORCH),
        ),
        *other_kernels(Condition.NEAR_ROOF, Condition.NO_SHAPES, Condition.SERVER)[1:],
        Advice("Increase the batch per GPU: extra rows are nearly free."),
    ),
)
def few_rows(context: Context) -> Finding | None:
    """Report products that wait for their weights."""
    rates, peak = rates_of(*context.analysed), _gpu(context).peak
    waiting = rates.products[rates.products["bound"] == "memory"]
    sizes = [_rows_and_weight(each) for each in records(waiting)]
    rows, weight_bytes = np.array(sizes, dtype=np.int64).reshape(-1, 2).T
    waiting, rows, weight_bytes = waiting[rows > 0], rows[rows > 0], weight_bytes[rows > 0]
    gpu_ns = float(waiting["gpu_ns"].sum())
    share = rates.share(gpu_ns)
    if share < LEAST_SHARE or peak is None:
        return _one_row(context) or _few_requests(context)
    kind = str(waiting["dtype"].iloc[0])
    until = peak.tflops[kind] * TERA * _BYTES[kind] / 2 / (peak.gb_per_s * GIGA)
    reached = _reached(waiting)
    is_near = reached >= NEAR_ROOF
    cells = context.steps["period"].size
    read_bytes = float((weight_bytes * waiting["calls"]).sum()) / cells
    saved_ns = (1 - reached / 100) * gpu_ns / cells
    return _line(
        context,
        few_rows,
        f"Matrix products of at most {rows.max():,} rows take {percent(share)} of the kernel time, "
        f"reading {data_size(read_bytes)} of weights{context.steps.per_noun} at {percent(reached)} "
        f"of the memory bandwidth; up to {until:.0f} rows cost little more"
        f"{'' if is_near else '; faster kernels save time'}",
        conditions=holding({Condition.NEAR_ROOF: is_near}),
        # 2.9 of 10.5 ms stood in a notice, below a finding of 0.7
        price=_UNKNOWN if is_near else Price.counted(saved_ns, "at most"),
        evidence={
            "share_percent": share,
            "reached_percent": reached,
            "weight_bytes": read_bytes,
            "products": _listed(waiting),
        },
        panel="roofline",
        seen_in=NamedKernels(operators=frozenset(waiting["operator"])),
    )


def _one_row(context: Context) -> Finding | None:
    """Report products of a matrix and a vector together, which their names show without shapes."""
    kernels = kernels_by_name(*context.analysed)
    own = kernels[kernels["name"].str.contains(_GEMV)]
    share = _part(own, kernels)
    if share < PRODUCTS_SHARE:
        return None
    count = int(own["count"].sum())
    return _line(
        context,
        few_rows,
        f"Products of a matrix and a vector (GEMV) take {percent(share)} of the compute time "
        f"({counted(count, 'launch', 'launches')}): each reads its whole matrix for one row, as in "
        "decoding a single sequence",
        conditions=(Condition.ONE_ROW, Condition.NO_SHAPES),
        evidence={"share_percent": share, "launches": count},
        seen_in=NamedKernels(names=frozenset(own["name"])),
    )


def _few_requests(context: Context) -> Finding | None:
    """Say of a server's steps what the rows of its products would show, which CUDA graphs lack.

    This holds for any GPU: 64 rows of two bytes are 64 FLOP for each byte of a weight, and tensor
    cores compute over 130 in the time that reads one byte. It does not hold for a mixture of
    experts, where more requests read the weights of more experts.
    """
    if Condition.MOE in context.conditions():
        return None
    steps = server_steps(context.job).steps
    steps = steps[steps["rank"].isin(context.ranks)]
    if steps.empty or {*steps["phase"]} != {"decode"}:
        return None
    requests = float(np.median(steps["generation_requests"].to_numpy(np.float64, na_value=np.nan)))
    kernels = kernels_by_name(*context.analysed)
    products = kernels[[*map(is_product, kernels["name"])]]
    share = _part(products, kernels)
    if not requests <= FEW_REQUESTS or share < PRODUCTS_SHARE:  # NaN where it is not known
        return None
    return _line(
        context,
        few_rows,
        f"Each step decodes for {counted(round(requests), 'request')}, and matrix products take "
        f"{percent(share)} of the compute time: they read all weights, however few the rows",
        conditions=(Condition.NO_SHAPES,),
        evidence={"share_percent": share, "requests": requests},
        seen_in=NamedKernels(names=frozenset(products["name"])),
    )


@cause(
    seen_in="compute",
    when="Operators that only read and write memory (norms, activations, additions, copies) take "
    "25 % of the kernel time, and fusing chains of them is not worth a line.",
    advice=(
        Advice(
            "If nothing is trained here, call model.eval() first: batch norms compute the "
            "statistics of each batch, as in training.",
            "model.eval()",
            needs=(Condition.TRAINS_NORMS,),
            unless=(Condition.TRAINING,),
        ),
        Advice(
            "Compile the model: fused kernels read and write each tensor once.",
            "model = torch.compile(model)",
            unless=(Condition.COMPILED, Condition.EMBEDDINGS),
        ),
        Advice(
            "Find out why they run outside the compiled code.",
            'TORCH_LOGS="graph_breaks,recompiles" python script.py',
            needs=(Condition.COMPILED,),
        ),
        Advice(
            "Fold the batch norms into the convolutions before them.",
            "from torch.nn.utils.fusion import fuse_conv_bn_eval\n\n"
            "convolution = fuse_conv_bn_eval(convolution, norm)",
            needs=(Condition.BATCH_NORM,),
            unless=(Condition.TRAINING,),
        ),
        Advice("Use kernels that do all of it at once, such as fused norms and activations."),
    ),
)
def memory_bound(context: Context) -> Finding | None:
    """Report operators that only read and write memory, if no chain shows what fusing saves."""
    if unfused_elementwise in context.found:
        return None
    rates = rates_of(*context.analysed)
    share = rates.share(float(rates.moving["gpu_ns"].sum()))
    if share < MOVING_SHARE:
        return None
    rows = records(rates.moving)
    most = [f"{row['operator']} {percent(rates.share(row['gpu_ns']))}" for row in rows[:_NAMED]]
    norms = [row for row in rows if "batch_norm" in row["operator"]]
    trains = context.job.reduce(as_in_training_ns, context.ranks, NORMS_IN_TRAINING).values()
    held = {Condition.BATCH_NORM: bool(norms), Condition.TRAINS_NORMS: any(trains)}
    return _line(
        context,
        memory_bound,
        f"Operators that only read and write memory take {percent(share)} of the kernel time, "
        f"most in {', '.join(most)}",
        conditions=holding(held),
        evidence={
            "share_percent": share,
            "operators": rates.moving.assign(gpu_ms=rates.moving["gpu_ns"] / NS_PER_MS)[
                ["operator", "gpu_ms"]
            ],
        },
        panel="operators",
        seen_in=NamedKernels(operators=frozenset(rates.moving["operator"])),
    )


@cause(
    seen_in="compute",
    when="Kernels of a mixture of experts take 25 % of the compute time.",
    advice=(
        Advice(
            "Let vLLM use AITER's kernels for the experts.",
            "VLLM_ROCM_USE_AITER=1 vllm serve MODEL",
            needs=(Condition.AMD, Condition.VLLM, Condition.EXPERTS_OF_TRITON),
        ),
        *of_engines(
            "Time a step with each kernel backend for the experts: the trace cannot tell which is "
            "fastest.",
            "vllm serve MODEL --help=moe-backend",
            "python -m sglang.launch_server --help | grep -A 3 moe-runner-backend",
        ),
        Advice(
            "Give each expert more tokens at once: it reads all of its weights, however few tokens "
            "it gets.",
            unless=(
                Condition.TRAINING,
            ),  # with 4,096 tokens of a sequence, weights are a small part
        ),
        Advice(
            "Time a step with other kernels for grouped matrix products: the trace cannot tell "
            "which are fastest.",
            needs=(Condition.TRAINING,),
        ),
    ),
)
def experts(context: Context) -> Finding | None:
    """Report the kernels of a mixture of experts together."""
    kernels = kernels_by_name(*context.analysed)
    own = kernels[kernels["name"].str.contains(EXPERT_KERNELS)]
    share = _part(own, kernels)
    if share < EXPERTS_SHARE:
        return None
    is_of_triton = bool(own["name"].str.contains(_OF_TRITON).any())
    is_of_triton &= not kernels["name"].str.contains(_OF_AITER).any()
    count = int(own["count"].sum())
    lengths_ns = [_lengths_ns(context, frozenset([name])) for name in own["name"]]
    launches = _many(count, np.concatenate(lengths_ns))
    if 1 < len(own) <= _NAMED:  # 1.72 ms were the mean of 3.47, 1.64 and 0.07
        medians = [duration(float(np.median(each))) for each in lengths_ns]
        kernels_of = zip(own["count"], medians, strict=True)
        each = ", ".join(f"{many:,} with a median of {median}" for many, median in kernels_of)
        launches = f"{counted(count, 'launch', 'launches')}: {each}"
    return _line(
        context,
        experts,
        f"Kernels of experts take {percent(share)} of the compute time ({launches})",
        conditions=holding({Condition.EXPERTS_OF_TRITON: is_of_triton}),
        evidence={"share_percent": share, "launches": count},
        seen_in=NamedKernels(names=frozenset(own["name"])),
    )


@cause(
    seen_in="copies",
    when="Copies within the GPU take 5 % of the step, and for as much of it the GPU copies while "
    "no kernel runs.",
    advice=(
        Advice(
            "Compile with Inductor: it fuses most copies, which this compiler leaves as they are.",
            'model = torch.compile(model, backend="inductor")',
            needs=(Condition.COMPILED, Condition.LEFT_BY_COMPILER),
            unless=(Condition.GRAPHS,),
        ),
        Advice(
            "Compile with Inductor, which copies less into and out of its CUDA graphs.",
            'model = torch.compile(model, options={"triton.cudagraphs": True})',
            needs=(Condition.COMPILED, Condition.LEFT_BY_COMPILER, Condition.GRAPHS),
        ),
        Advice(
            "Compile the model, which fuses most of them.",
            "model = torch.compile(model)",
            unless=(Condition.COMPILED, Condition.NO_PYTORCH),
        ),
        Advice(
            "Write results where they are read: clone(), contiguous() and cat() write a tensor "
            "again, views and out= do not.",
            unless=(Condition.NO_PYTORCH,),
        ),
        Advice(
            "Let kernels read and write the buffers directly, and swap pointers.",
            needs=(Condition.NO_PYTORCH,),
        ),
    ),
)
def device_copies(context: Context) -> Finding | None:
    """Report what copies within the GPU."""
    copies = _launched(context, _WITHIN_GPU, _NO_COPYING)
    count, total_ns = sum(copies.values(), np.zeros(2, np.int64)).tolist()
    period, alone_ns = context.steps["period"], context.steps["memory"].sum()
    share = 100 * total_ns / max(period.sum(), 1)
    if min(share, 100 * alone_ns / max(period.sum(), 1)) < LEAST_SHARE:
        return None
    around = sum((own for launched, own in copies.items() if launched.beside_graph), np.zeros(2))
    is_of_graphs = 100 * around[1] >= context.limits.owner_percent * total_ns
    of_graphs = f", {around[0] / period.size:,.0f} of them for what CUDA graphs read and return"
    whole = "each step" if context.steps.are_recorded else "the GPU span"
    what = counted(round(count / period.size), "copy", "copies")
    price = _UNKNOWN
    if is_of_graphs:  # without them, what they copy would be written where it is read
        asked = context.selection, re.compile(_WITHIN_GPU)
        rows = context.job.reduce(_rows_in, context.ranks, *asked)
        removed = context.without_work(rows)
        price = context.price(context.steps["memory"], removed, bound="at most")
    return _line(
        context,
        device_copies,
        f"{what} within the GPU take {duration(total_ns / period.size)} of {whole} "
        f"({percent(share)})",
        conditions=holding({Condition.LEFT_BY_COMPILER: is_left_by_compiler(context)}),
        detail=of_graphs if is_of_graphs else _owner_of(copies),
        evidence={"share_percent": share, "copies": count},
        panel="kernel_breakdown" if is_of_graphs else "operators",
        seen_in=NamedKernels(names=frozenset(each.name for each in copies)),
        marked=frozenset(each.operator for each in copies if not is_of_graphs),
        price=price,
    )


def _rows_in(rank: Rank, selection: TimeSelection | None, fits: re.Pattern[str]) -> Int64Array:
    return kernels_in(rank, selection, fits.fullmatch).rows


@cause(
    seen_in="compute",
    when="Always: the kernel with the most time.",
    advice=(
        Advice(
            "Record the kernels inside CUDA graphs.",
            "nsys profile --cuda-graph-trace=node python script.py",
            needs=(Condition.WHOLE_GRAPHS,),
        ),
        Advice(
            "Launch at least as many blocks as the GPU has multiprocessors: those without a block "
            "are idle.",
            needs=(Condition.FEW_BLOCKS,),
            unless=(Condition.FEW_THREADS,),
        ),
        Advice(
            "Split the work into blocks of 128 to 256 threads, and launch at least as many as the "
            "GPU has multiprocessors: those without a block are idle.",
            needs=(Condition.FEW_BLOCKS, Condition.FEW_THREADS),
        ),
        Advice(
            "Launch blocks of 128 to 256 threads: they run 32 at a time, however few a block has.",
            needs=(Condition.FEW_THREADS,),
            unless=(Condition.FEW_BLOCKS,),
        ),
        Advice(
            "Let more blocks run at a time: limit the registers of a thread, or split the kernel. "
            "Time both: what no register holds goes through memory.",
            "__global__ void __launch_bounds__(256, 2) kernel(...)  // threads, blocks",
            needs=(Condition.BY_REGISTERS,),
        ),
        Advice(
            "Let more blocks run at a time: use less shared memory in each.",
            needs=(Condition.BY_SHARED_MEMORY,),
        ),
        Advice(
            "Record the graph capture as well and open both: its operators carry the shapes.",
            "hta-widgets open REPLAY --captures CAPTURE",
            needs=(Condition.NO_SHAPES, Condition.GRAPHS),
            unless=(Condition.CAPTURES,),
        ),
        Advice(
            "Record the captures of this very server when it starts: the opened ones are of other "
            "graphs.",
            needs=(Condition.NO_SHAPES, Condition.CAPTURES),
        ),
    ),
)
def largest_kernel(context: Context) -> Finding | None:
    """Name the kernel with the most time, and how to measure what limits it."""
    computing = kernels_by_name(*context.analysed)
    if hide_kernels(context):
        return _graphs(context, int(computing["gpu_ns"].sum()))
    if computing.empty:
        return None
    function, alike = _function_with_most(computing)
    most, names = records(alike)[0], frozenset(alike["name"])
    gpu_ns, count = int(alike["gpu_ns"].sum()), int(alike["count"].sum())
    rates = rates_of(*context.analysed)
    in_graphs = rates.share(rates.in_graphs_ns)
    share = 100 * gpu_ns / max(int(computing["gpu_ns"].sum()), 1)
    lengths_ns = _lengths_ns(context, names)
    said, configuration = [_many(count, lengths_ns), *_longest(lengths_ns)], _Configuration()
    if function:
        words = f"{len(names)} kernels around lambdas of {named(function)} take {percent(share)}"
    else:
        (label,) = labels_in_job(context.job, context.ranks, [most["name"]])
        words = f"{label} is the largest kernel, with {percent(share)}"
        configuration = _configuration(context, most)
    said += configuration.said
    hidden = rates.in_graphs_ns > rates.kernel_ns / 2
    unseen = f"; {percent(in_graphs)} of the kernel time is in CUDA graphs, without shapes"
    launched = _launched(context, re.escape(most["name"]), "")
    made = _line(
        context,
        largest_kernel,
        f"{words} of the compute time ({', '.join(said)}){unseen if hidden else ''}",
        conditions=holding(
            {
                Condition.NO_SHAPES: hidden,
                Condition.CAPTURES: _has_other_captures(context),
                **dict.fromkeys(configuration.conditions, True),
            }
        ),
        detail=_owner_of(launched, context.limits.owner_percent),
        evidence={"share_percent": share, "launches": count, **configuration.few_blocks},
        seen_in=NamedKernels(names=names),
    )
    measured = advice_to_profile(
        context, most["name"], computing["name"], is_long=gpu_ns >= LONG_NS * count
    )
    return replace(made, advice=(*made.advice, measured))


class _Configuration(NamedTuple):
    """What stands out in how a kernel is launched."""

    said: Sequence[str] = ()
    conditions: Sequence[Condition] = ()
    few_blocks: Mapping[str, int] = {}
    """Its blocks and the GPU's multiprocessors, if these are many more."""


def _configuration(context: Context, kernel: Row) -> _Configuration:
    said: list[str] = []
    conditions: list[Condition] = []
    few_blocks: dict[str, int] = {}
    if kernel["tensor_core"]:
        said.append(f"{'on' if kernel['tensor_core'] == 'yes' else 'without'} tensor cores")
    if kernel["occupancy_percent"] >= 0:
        limit = _keeps_out(context, kernel)
        conditions += limit.keys()
        said.append(f"{percent(kernel['occupancy_percent'])} occupancy{''.join(limit.values())}")
    if has_few_blocks(kernel):
        few_blocks = {"blocks": kernel["blocks"], "multiprocessors": kernel["sms"]}
        conditions.append(Condition.FEW_BLOCKS)
        said.append(f"{kernel['blocks']:,} of {kernel['sms']:,} multiprocessors")
    if 0 < kernel["threads"] < WARP:
        conditions.append(Condition.FEW_THREADS)
        said.append(f"{counted(kernel['threads'], 'thread')} in each block")
    return _Configuration(said, conditions, few_blocks)


def _keeps_out(context: Context, kernel: Row) -> dict[Condition, str]:
    """What lets few blocks of a program's own kernel run on a multiprocessor, and in words."""
    if (
        kernel["occupancy_percent"] >= LOW_OCCUPANCY
        or min(kernel["registers"], kernel["threads"]) <= 0
        or readable_name(kernel["name"])
    ):
        return {}
    (gpu,) = context.job.reduce(_multiprocessors_of, context.ranks[:1]).values()
    names = ("threads", "registers", "shared_bytes")
    fitting = gpu.fitting(*(np.array([kernel[name]]) for name in names))
    what = min(fitting, key=lambda name: int(fitting[name][0]))
    many = int(fitting[what][0])
    if kernel["blocks"] < many * kernel["sms"]:
        return {}
    fit = f", as {counted(many, 'block')} {'fits' if many == 1 else 'fit'} on a multiprocessor with"
    if what == "registers":
        return {Condition.BY_REGISTERS: f"{fit} {kernel['registers']} registers/thread"}
    if what == "shared_bytes":
        size = data_size(kernel["shared_bytes"])
        return {Condition.BY_SHARED_MEMORY: f"{fit} {size} shared memory/block"}
    return {}


def _multiprocessors_of(rank: Rank) -> Multiprocessors:
    return multiprocessors(rank.trace.metadata)[rank.gpu_work.main_device]


_OF_FUNCTION: Final = re.compile(r"^(?!.*at::native).*?\b(\w+)\([^()]*\)(?: const)?::[\[{]lambda")
"""The function that holds a kernel's lambda; not PyTorch's, which other lines name by operator."""


def _function_with_most(kernels: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Rows of the kernels around lambdas of one function, or of one kernel that takes more.

    Of 36 kernels in CloverLeaf, twelve are of one function, with 33.9 % of the time; the largest
    has 6.6.
    """
    largest = kernels[:1]
    function = kernels["name"].str.extract(_OF_FUNCTION, expand=False).fillna("")
    sums = kernels["gpu_ns"].groupby(function).sum().drop("", errors="ignore")
    if sums.empty or sums.max() <= largest["gpu_ns"].iloc[0]:
        return "", largest
    return str(sums.idxmax()), kernels[function == sums.idxmax()]


def _graphs(context: Context, kernels_ns: int) -> Finding:
    """Say that the kernels that take most of the time were not recorded."""
    lengths_ns = whole_graphs_ns(*context.analysed)
    share = 100 * int(lengths_ns.sum()) / (int(lengths_ns.sum()) + kernels_ns)
    names = chain.from_iterable(context.job.reduce(_names_of_graphs, context.ranks).values())
    return _line(
        context,
        largest_kernel,
        f"{percent(share)} of the compute time is in CUDA graphs that were recorded as a whole "
        f"({_many(lengths_ns.size, lengths_ns)}): which kernels take it is not known",
        conditions=(Condition.WHOLE_GRAPHS,),
        evidence={"share_percent": share, "launches": lengths_ns.size},
        seen_in=NamedKernels(names=frozenset(names)),
    )


def _names_of_graphs(rank: Rank) -> tuple[str, ...]:
    work = rank.gpu_work
    return tuple({work.names[code] for code in work.name[work.type == KernelType.CUDA_GRAPH]})


def has_few_blocks(kernel: Row) -> bool:
    """Whether a row of `kernels_by_name` has blocks for few of the multiprocessors."""
    return bool(0 < kernel["blocks"] < FEW_BLOCKS * kernel["sms"])


def _lengths_ns(context: Context, names: frozenset[str]) -> Int64Array:
    """How long each launch of some kernels takes."""
    asked = context.selection, names
    return np.concatenate([*context.job.reduce(_durations_ns, context.ranks, *asked).values()])


def _durations_ns(rank: Rank, selection: TimeSelection | None, names: frozenset[str]) -> Int64Array:
    return kernels_in(rank, selection, names.__contains__).duration_ns


def _many(count: int, lengths_ns: Int64Array) -> str:
    """How many launches there are, and how long they take: as kernels everywhere, the median."""
    typical = duration(float(np.median(lengths_ns)))
    return f"{count:,} launches, median {typical}" if count > 1 else f"1 launch of {typical}"


def _longest(lengths_ns: Int64Array) -> Iterator[str]:
    """Say if few launches that are much longer than the others hold much of the time."""
    long_ns = lengths_ns[lengths_ns > LONGER * np.median(lengths_ns)]
    if long_ns.size and long_ns.sum() >= ONE_LONG * lengths_ns.sum():
        share = percent(100 * int(long_ns.sum()) / int(lengths_ns.sum()))
        least = duration(int(long_ns.min()))
        many = f"{share} of it in {long_ns.size:,} of {least} or more"
        yield f"one of {least}" if long_ns.size == 1 else many


def _has_other_captures(context: Context) -> bool:
    """Whether captures were opened with the trace that do not cover all of its replays."""
    counts = context.job.reduce(joined_replays, context.ranks).values()
    return any(joined < replays for joined, replays in counts)


class _Launched(NamedTuple):
    """Operations of one name that one operator launches."""

    name: str
    operator: str
    """Empty for none."""
    beside_graph: bool
    """Whether the operator also launches a CUDA graph, as compiled functions do, which copy its
    inputs before and its outputs after it: 766 of 768 copies, with 15 of 118 ms."""


def _owner_of(launched: Mapping[_Launched, Int64Array], least_percent: float = 0) -> str:
    """The operator with most of their time, in words after a comma; or nothing."""
    total_ns: Counter[str] = Counter()
    for each, (_, ns) in launched.items():
        total_ns[each.operator] += int(ns)
    (operator, ns), *_ = total_ns.most_common(1)
    share = 100 * ns / total_ns.total()
    if not operator or share < least_percent:
        return ""
    return f", {'all' if share == 100 else percent(share)} of it in {named(operator)}"  # noqa: PLR2004


def _launched(context: Context, fits: str, meant: str) -> dict[_Launched, Int64Array]:
    """Count operations and their time by what launches them.

    Operations are those whose names fit one pattern; operators are the innermost that fit another.
    """
    found: dict[_Launched, Int64Array] = defaultdict(lambda: np.zeros(2, np.int64))
    asked = context.selection, re.compile(fits), re.compile(meant)
    for of_rank in context.job.reduce(_launched_by, context.ranks, *asked).values():
        for key, sums in of_rank.items():
            found[key] += sums
    return found


def _launched_by(
    rank: Rank, selection: TimeSelection | None, fits: re.Pattern[str], meant: re.Pattern[str]
) -> dict[_Launched, Int64Array]:
    caller, work = as_called(rank, kernels_in(rank, selection, fits.fullmatch))
    calls = calls_of(caller)
    operators = operators_of(calls, work, meant.search)
    launches_graph = calls_around(calls, calls.named(patterns.GRAPH_LAUNCH.search))
    beside_graph = np.append(launches_graph, False)[operators.place]
    groups = grouped(work.name, operators.kind, beside_graph)
    sums = np.stack((groups.sizes, groups.reduce(np.add, work.duration_ns)), axis=1)
    found: dict[_Launched, Int64Array] = defaultdict(lambda: np.zeros(2, np.int64))
    for first, of_group in zip(groups.first.tolist(), sums, strict=True):
        operator, *_ = operators.kinds[operators.kind[first]]
        operator = "" if GRAPH_CALL.fullmatch(operator) else operator
        name = work.names[work.name[first]]
        found[_Launched(name, operator, bool(beside_graph[first]))] += of_group
    return {**found}


_PRICED: Final = (no_tensor_cores, slow_shape, unfused_elementwise, layout_transposes)
BY_RATE: Final = (
    large_products,
    few_rows,
    experts,
    attention,
    memory_bound,
    device_copies,
    largest_kernel,
)
_KNOWN_SLOW: Final = few_rows, attention, memory_bound, largest_kernel
"""Products of few rows if they have a price, attention from `LITTLE_PERCENT` on, and the largest
kernel if it leaves most of the GPU idle."""


def _gpu(context: Context) -> Gpu:
    return context.facts[context.ranks[0]].compute.gpu


def _part(own: pd.DataFrame, kernels: pd.DataFrame) -> float:
    """Share of the time of all computing kernels (percent) that some of them take."""
    return 100 * int(own["gpu_ns"].sum()) / max(int(kernels["gpu_ns"].sum()), 1)


def _reached(products: pd.DataFrame) -> float:
    """Share of their peak (percent) that products reach together, weighted by time."""
    gpu_ns = products["gpu_ns"]
    return float((gpu_ns * products["percent_of_peak"]).sum()) / float(gpu_ns.sum())


def _rows_and_weight(row: Row) -> tuple[int, int]:
    """Rows of a product, and bytes of its weight, which has more rows and columns; else 0."""
    place = {"aten::mm": 0, "aten::addmm": 1}.get(row["operator"])
    if place is None or row["dtype"] not in _BYTES:
        return 0, 0
    left, weight = inputs_of(row["input_dims"], row["input_types"]).tensors[place : place + 2]
    if left is None or weight is None or left.shape[0] >= min(weight.shape):
        return 0, 0
    return left.shape[0], weight.bytes


def _listed(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(gpu_ms=table["gpu_ns"] / NS_PER_MS)[[*_COLUMNS, "percent_of_peak"]]
