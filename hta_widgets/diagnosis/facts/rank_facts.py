"""What a diagnosis needs to know of one rank: small beside the rank, asked for once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.window import NO_STEP, lead_in_end
from hta_widgets.diagnosis.facts import step_facts
from hta_widgets.diagnosis.facts.communication_facts import (
    CommunicationFacts,
    communication_facts,
)
from hta_widgets.diagnosis.facts.compute_facts import ComputeFacts, compute_facts
from hta_widgets.diagnosis.facts.conditions import Condition, conditions_of
from hta_widgets.diagnosis.facts.host_facts import HostFacts, host_facts
from hta_widgets.diagnosis.facts.not_recorded import RankRecords, rank_records
from hta_widgets.diagnosis.facts.step_facts import Columns
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

_MAY_COMPUTE = (KernelType.COMPUTATION, KernelType.CUDA_GRAPH)


class LastStep(NamedTuple):
    """A step that is left out because it comes last: the recording may end before it does."""

    number: int
    length_ns: int
    """From the end of the step before to the end of its last recorded kernel that computes, as the
    lengths of the others are: at least what it took."""
    is_complete: bool
    """Whether that is all it took: its mark has an end, and all kernels that were launched in it
    have run."""


def last_step(rank: Rank, steps: DeviceSteps) -> LastStep | None:
    """The last step of a rank; None where it is analysed, or nothing that it computes is there."""
    marks, numbers = rank.steps, steps.window.steps
    if NO_STEP in numbers or not len(marks):
        return None
    place = int(np.argmax(marks.start_ns))
    number = int(marks.number[place])
    if number in numbers:
        return None
    launched_ns = rank.trace.events.start_ns[steps.work.launch]
    own = (steps.work.launch >= 0) & (launched_ns >= marks.start_ns[place])
    own &= (launched_ns < marks.end_ns[place]) & np.isin(steps.work.type, _MAY_COMPUTE)
    if not own.any():
        return None
    length_ns = int(steps.work.end_ns[own].max() - steps.edges[-1])
    return LastStep(number, length_ns, is_complete=not rank.health.lost.at_end)


class RankFacts(NamedTuple):
    """Facts on one rank."""

    steps: Columns
    """See `step_facts`."""
    communication: CommunicationFacts
    """Of the kernels whose waiting is known."""
    records: RankRecords
    conditions: frozenset[Condition]
    """What holds of its recording."""
    compute: ComputeFacts
    """Kinds of the computing kernels."""
    host: HostFacts | None = None
    """None without GPU work."""
    beside_trials: Columns | None = None
    """``steps`` without the trials of an autotuner, if these are found without steps."""
    last_step: LastStep | None = None
    """The step that is left out because it comes last."""
    behind_cut: tuple[int, ...] = ()
    """Numbers of the steps on the host that end after the last launch with work, where the file is
    cut: what else their GPU did is not known."""
    lead_in_ns: int = 0
    """Time from the begin of its window in which its GPU is busy with work from before the
    recording."""


def rank_facts(
    rank: Rank, steps: DeviceSteps | None, split: RankSplit, limits: TrialLimits
) -> RankFacts:
    """Facts on one rank, with its steps and the waiting of its communication kernels known."""
    host = None if steps is None else host_facts(rank, steps, limits)
    columns = step_facts.step_facts(rank, steps)
    if host is not None:
        columns |= host.trials.columns
        columns["host_copies"] = host.copies.exposed_ns
    return RankFacts(
        steps=columns,
        communication=communication_facts(rank, split),
        records=rank_records(rank),
        conditions=conditions_of(rank),
        compute=compute_facts(rank),
        host=host,
        beside_trials=_beside_trials(steps, host, columns),
        last_step=None if steps is None else last_step(rank, steps),
        behind_cut=() if steps is None else _behind_cut(rank, steps),
        lead_in_ns=0 if steps is None else _lead_in_ns(rank, steps),
    )


def _behind_cut(rank: Rank, steps: DeviceSteps) -> tuple[int, ...]:
    launches, marks = steps.work.launch[steps.work.launch >= 0], rank.steps
    if not (rank.trace.faults.is_cut and launches.size):
        return ()
    last_ns = rank.trace.events.start_ns[launches].max()
    return tuple(sorted({*marks.number[marks.end_ns > last_ns].tolist()}))


def _lead_in_ns(rank: Rank, steps: DeviceSteps) -> int:
    free_ns = lead_in_end(rank, steps.device)
    return 0 if free_ns is None else max(free_ns - steps.window.start_ns, 0)


def _beside_trials(
    steps: DeviceSteps | None, host: HostFacts | None, columns: Columns
) -> Columns | None:
    """The columns of the steps without what passes from the first to the last trial of a series."""
    if steps is None or host is None or not host.trials.spans_ns:
        return None
    first, last = (int(each) for each in (steps.edges[0], steps.edges[-1]))
    ends = [end for span in host.trials.spans_ns for end in span]
    edges = np.maximum.accumulate(np.clip(np.array([first, *ends, last]), first, last))
    by_bin = {**step_facts.of_gpu(steps, edges), "host": np.diff(edges)}
    during = {name: bins[1::2].sum() for name, bins in by_bin.items()}
    left = {name: np.maximum(columns[name] - ns, 0) for name, ns in during.items()}
    return {**columns, **left}
