"""What the computing kernels of one rank are: products of matrices, elementwise chains."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import main_device
from hta_widgets.analyses.time.tensor_cores import ELEMENTWISE
from hta_widgets.analyses.time.window import window_of
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.facts.attention_facts import AttentionFacts, attention_facts
from hta_widgets.diagnosis.facts.gpus import Gpu, gpu_of
from hta_widgets.diagnosis.facts.kernel_facts import computing_kernels
from hta_widgets.diagnosis.facts.product_facts import ProductFacts, product_facts
from hta_widgets.grouping import Groups
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

FEWEST_IN_CHAIN: Final = 3
"""Consecutive elementwise kernels that are worth one fused kernel."""

MOST_FUSED: Final = 10
"""Longer chains work on several tensors, which one kernel does not read only once."""

FUSED_COST: Final = 1.5
"""A fused kernel reads and writes about as much as one and a half of those it replaces."""

MOST_LISTED: Final = 5
NOTHING: Final = np.zeros(0, dtype=np.int64)


class Row(NamedTuple):
    """Chains that are listed together: first kernel, number of kernels, how often, their time."""

    name: str
    kernels: int
    times: int
    total_ns: int


class ComputeFacts(NamedTuple):
    """Computing kernels of one rank, by step.

    Attributes
    ----------
    step : ndarray of int64
        Numbers of the analysed ProfilerSteps, ascending.
    product_ns, plain_ns, half_ns, plain_saved_ns : ndarray of int64
        Time in products of matrices and convolutions, of these without tensor cores, of these in
        types of 16 bits; and what tensor cores would save.
    elementwise_ns, fusible_ns : ndarray of int64
        Time in elementwise kernels, and how much less fused ones would take; those of unfused
        attention save nothing here.
    attention_ns, attention_saved_ns : ndarray of int64
        Time in unfused attention, and of this in kernels that are no products.
    gpu : Gpu
    products : ProductFacts
        Without the columns of each kernel.
    attention : AttentionFacts
        Without the columns of each kernel.
    chains : tuple of Row
        Those with most time.
    """

    step: Int64Array
    product_ns: Times
    plain_ns: Times
    half_ns: Times
    plain_saved_ns: Times
    elementwise_ns: Times
    fusible_ns: Times
    attention_ns: Times
    attention_saved_ns: Times
    gpu: Gpu
    products: ProductFacts
    attention: AttentionFacts
    chains: tuple[Row, ...]


def compute_facts(rank: Rank) -> ComputeFacts:
    """Computing kernels of a rank."""
    kernels, window = computing_kernels(rank), window_of(rank)
    numbers, place = np.unique(window.steps, return_inverse=True)
    step = place[window.step_of(rank, kernels)]
    gpu = gpu_of(rank.trace.metadata, main_device(rank))
    products = product_facts(rank, kernels, gpu)
    elementwise = _is_elementwise(kernels)
    attention = attention_facts(rank, kernels)
    chains = _chains(kernels, step, elementwise)
    saved_ns = np.zeros(len(kernels), dtype=np.int64)
    for rows in chains:
        fused = min(_different(kernels, rows), MOST_FUSED)
        saved_ns[rows] = kernels.duration_ns[rows] * (1 - FUSED_COST / fused)
    saved_ns[attention.total_ns > 0] = 0

    def in_steps(values: Times) -> Times:
        return np.bincount(step, values, minlength=numbers.size).astype(np.int64)

    return ComputeFacts(
        step=numbers.astype(np.int64),
        product_ns=in_steps(kernels.duration_ns * products.is_product),
        plain_ns=in_steps(products.plain_ns),
        half_ns=in_steps(products.half_ns),
        plain_saved_ns=in_steps(products.saved_ns),
        elementwise_ns=in_steps(kernels.duration_ns * elementwise),
        fusible_ns=in_steps(saved_ns),
        attention_ns=in_steps(attention.total_ns),
        attention_saved_ns=in_steps(attention.others_ns),
        gpu=gpu,
        products=products.without_columns(),
        attention=attention._replace(total_ns=NOTHING, others_ns=NOTHING),
        chains=_largest_chains(kernels, chains),
    )


def _is_elementwise(work: GpuWork) -> Mask:
    used, place = np.unique(work.name, return_inverse=True)
    names = [work.names[code] for code in used.tolist()]
    return np.array([bool(ELEMENTWISE.search(name)) for name in names], dtype=bool)[place]


def _chains(work: GpuWork, step: Int64Array, elementwise: Mask) -> list[Int64Array]:
    """Rows of consecutive elementwise kernels of a stream and step, if there are several."""
    order = np.lexsort((work.start_ns, work.stream))
    is_one, stream, of_step = elementwise[order], work.stream[order], step[order]
    opens = np.arange(order.size) == 0
    opens[1:] |= (stream[1:] != stream[:-1]) | (of_step[1:] != of_step[:-1])
    opens[1:] |= is_one[1:] != is_one[:-1]
    runs = Groups(order, np.append(np.flatnonzero(opens), order.size))
    chosen = (runs.sizes >= FEWEST_IN_CHAIN) & is_one[runs.edges[:-1]]
    found = [order[runs.edges[run] : runs.edges[run + 1]] for run in np.flatnonzero(chosen)]
    return [rows for rows in found if _different(work, rows) >= FEWEST_IN_CHAIN]


def _different(work: GpuWork, rows: Int64Array) -> int:
    """Number of kernels that differ from the one before: equal ones work on other tensors."""
    return 1 + int(np.count_nonzero(np.diff(work.name[rows])))


def _largest_chains(work: GpuWork, chains: list[Int64Array]) -> tuple[Row, ...]:
    """Chains by their length and first kernel."""
    count: dict[tuple[int, int], int] = {}
    total: dict[tuple[int, int], int] = {}
    for rows in chains:
        key = (int(work.name[rows[0]]), rows.size)
        count[key] = count.get(key, 0) + 1
        total[key] = total.get(key, 0) + int(work.duration_ns[rows].sum())
    most = sorted(total, key=lambda key: -total[key])[:MOST_LISTED]
    return tuple(Row(work.names[key[0]], key[1], count[key], total[key]) for key in most)
