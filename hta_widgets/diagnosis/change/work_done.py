"""How much a rank gets done in some of its time, as far as its recording states it.

A step may be longer because it does more, and recordings of a fixed length take equally long
whatever the program does. The amounts here, divided by the time, tell such jobs apart.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import numpy as np

from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.budget.served_steps import served_steps
from hta_widgets.analyses.operators.operator_calls import SHAPES, shapes_of
from hta_widgets.analyses.server_steps import compiled_graph_runs
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import distinct
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

WORK_OF_USERS: Final = (
    *("generated tokens", "verified tokens", "prompt tokens", "samples"),
    "runs of one compiled graph",
)
"""What a program is run for, most telling first; not all verified tokens are accepted."""

WORK_OF_GPUS: Final = ("kernels and copies", "collectives", "launches")
"""What a GPU and its host do for this; another program may need fewer of them."""

WORK: Final = (*WORK_OF_USERS, *WORK_OF_GPUS)

Amounts: TypeAlias = dict[str, int]
"""Amounts by kind of `WORK`; what is not stated is missing."""

_LOADS_A_BATCH: Final = re.compile(r"^enumerate\(DataLoader\)")
_FIRST_SIZE: Final = re.compile(r"\[+(\d{1,9})\b")


def work_done(rank: Rank, found: DeviceSteps, chosen: Int64Array) -> Amounts:
    """Count what a rank does in some steps, given by their positions."""
    work, window = rank.gpu_work.by_device()[found.device], found.window
    of_step = np.isin(window.step_of(rank, work), chosen) & window.is_of_a_step(rank, work)
    work = work.take(np.flatnonzero(of_step))
    is_collective = work.type == KernelType.COMMUNICATION
    launches = distinct(work.launch[work.launch >= 0]).size
    samples = _samples(rank, found, chosen, work)
    runs = compiled_graph_runs(rank) if NO_STEP in window.steps else None
    return {
        **_tokens(rank, window.steps[chosen]),
        **({"samples": samples} if samples else {}),
        **({"runs of one compiled graph": runs.number} if runs else {}),
        "kernels and copies": int(np.count_nonzero(~is_collective)),
        "collectives": int(np.count_nonzero(is_collective)),
        **({"launches": int(launches)} if launches else {}),
    }


def _tokens(rank: Rank, steps: Int64Array) -> Amounts:
    """Tokens of the steps of a server, if all their names say how many."""
    served = served_steps(rank)
    if served is None:
        return {}
    own = served[served["step"].isin(steps)]
    prompt, generated = own["context_tokens"], own["generation_tokens"]
    are_verified = (generated > own["generation_requests"]).fillna(value=False).any()
    amounts = {
        "prompt tokens": prompt,
        "verified tokens" if are_verified else "generated tokens": generated,
    }
    return {name: int(each.sum()) for name, each in amounts.items() if each.notna().all()}


def _samples(rank: Rank, found: DeviceSteps, chosen: Int64Array, work: GpuWork) -> int:
    """Batches of a DataLoader, times the rows of what is copied to the GPU; 0 if not stated.

    All copied tensors must have the same number of rows, and all steps of batches. A tensor that
    holds the sentences of a batch one after another does not show how many there are.
    """
    calls = calls_of(rank)
    is_analysed = rank.analysed[calls.forest.rows]
    loads = np.flatnonzero(calls.named(_LOADS_A_BATCH.search) & is_analysed)
    if not loads.size:
        return 0
    copies = work.launch[work.named(patterns.HOST_TO_DEVICE.search)]
    operators = calls.operator[calls.places_of(copies[copies >= 0])]
    dims = shapes_of(rank)[SHAPES[0]]
    texts = [dims.texts[code] for code in distinct(dims.code[operators[operators >= 0]]).tolist()]
    rows = {int(size[1]) for text in texts if (size := _FIRST_SIZE.match(text))}
    if len(rows) != 1:
        return 0
    step = np.searchsorted(found.window.step_start_ns, calls.start_ns[loads], side="right") - 1
    batches = np.bincount(step[step >= 0], minlength=found.window.steps.size)[chosen]
    is_even = batches.size > 0 and batches.min() == batches.max()
    return rows.pop() * int(batches.sum()) if is_even else 0
