"""What the ranks send each other in the steps of a diagnosis.

A pipeline sends activations forward and gradients back::

    0 ⇄ 1 ⇄ 2 ⇄ 3        a pipeline of four stages
    4 ⇄ 5 ⇄ 6 ⇄ 7        its copy: ranks 0 and 4 are copies of one stage
    0 → 1 → 2 → 3 → 0    a ring, such as that of context parallelism: no pipeline
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_widgets.analyses.collectives import job_waits
from hta_widgets.analyses.collectives.waits import Waits
from hta_widgets.analyses.communication.kernels import P2P, Series
from hta_widgets.analyses.communication.matching import Matches
from hta_widgets.analyses.communication.recorded import bus_factor
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.diagnosis.facts.communication_facts import CommunicationFacts
from hta_widgets.diagnosis.job.steps import Matrix, Steps
from hta_widgets.trace.job import Job

Neighbours = Mapping[int, set[int]]


ELSEWHERE = -1


Pipeline = tuple[int, ...]
"""Ranks by stage."""


def pipelines(all_series: Iterable[Series]) -> tuple[Pipeline, ...]:
    """Pipelines of a job, ascending by their first rank.

    Ranks that send to each other in both directions are neighbours; connected ones are a pipeline.
    Stages count from the end with the lower rank. If the pipeline is closed (an interleaved
    schedule sends from the last stage to the first) or branches, they follow the order of ranks.
    Two ranks that exchange data for another reason look the same.

    Examples
    --------
    >>> pairs = [(0, 2), (2, 0), (2, 1), (1, 2), (5, 6)]
    >>> pipelines([Series("p2p", "pp", pair, 2) for pair in pairs])
    ((0, 2, 1),)
    """
    sent = {each.ranks for each in all_series if each.operation == P2P}
    neighbours: dict[int, set[int]] = {}
    for sender, receiver in sent:
        if (receiver, sender) in sent:
            neighbours.setdefault(sender, set()).add(receiver)
    found, seen = [], set[int]()
    for rank in sorted(neighbours):
        if rank not in seen:
            connected = _connected(neighbours, rank)
            seen |= connected
            found.append(_in_order(neighbours, connected))
    return tuple(found)


def copies_of_stages(chosen: Sequence[Pipeline]) -> list[tuple[int, ...]]:
    """Ranks with the same stage, for each stage of pipelines of equal length.

    Examples
    --------
    >>> copies_of_stages([(0, 1), (2, 3)])
    [(0, 2), (1, 3)]
    """
    if len({*map(len, chosen)}) != 1:
        return []
    return list(zip(*chosen, strict=True))


def _connected(neighbours: Neighbours, rank: int) -> set[int]:
    reached, waiting = {rank}, [rank]
    while waiting:
        new = neighbours[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached


def _in_order(neighbours: Neighbours, connected: set[int]) -> tuple[int, ...]:
    """Ranks along the chain, if they form one; ascending otherwise."""
    ends = [rank for rank in sorted(connected) if len(neighbours[rank]) == 1]
    is_chain = len(ends) == 2 and all(len(neighbours[rank]) <= 2 for rank in connected)  # noqa: PLR2004
    if not is_chain:
        return tuple(sorted(connected))
    chain = [ends[0]]
    while len(chain) < len(connected):
        chain.extend(neighbours[chain[-1]] - set(chain[-2:]))
    return tuple(chain)


@dataclass(frozen=True, eq=False)
class Traffic:
    """Matched collectives and sends of a job, and which step each belongs to."""

    steps: Steps
    waits: Waits
    place: Int64Array
    step: Int64Array
    """For each kernel of ``waits.matches.rows``: positions in ``steps.ranks`` and
    ``steps.numbers``, -1 if not in these."""
    exposed_wait_ns: Int64Array
    exposed_transfer_ns: Int64Array
    """Exposed waiting and transfer of each kernel, see `CommunicationFacts`."""

    @property
    def matches(self) -> Matches:
        """The collectives."""
        return self.waits.matches

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """The series of each collective."""
        known = self.matches.kernels.all_series
        return tuple(known[code] for code in self.matches.series.tolist())

    @cached_property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """Pipelines of the whole job."""
        return pipelines(self.matches.kernels.all_series)

    @cached_property
    def copies(self) -> tuple[tuple[int, ...], ...]:
        """Ranks with the same stage, for each stage of the pipelines of these ranks."""
        known = {*self.steps.ranks}
        every = copies_of_stages(self.pipelines)
        chosen = [tuple(rank for rank in copies if rank in known) for copies in every]
        return tuple(copies for copies in chosen if copies)

    @cached_property
    def is_in_steps(self) -> Mask:
        """Whether each collective has a kernel in the steps."""
        found = np.zeros(len(self.matches), dtype=bool)
        found[self.matches.of_row[self._inside]] = True
        return found

    def of_operation(self, operation: str) -> Mask:
        """Whether each collective performs an operation."""
        return np.array([each.operation == operation for each in self.series], dtype=bool)

    @cached_property
    def busbw_gb_per_s(self) -> Float64Array:
        """Bus bandwidth of each collective during its transfer; NaN if its size is not recorded."""
        matches = self.matches
        sizes = matches.kernels.size_bytes[matches.rows[matches.edges[:-1]]].astype(np.float64)
        factors = np.array([bus_factor(each.operation, max(each.size, 1)) for each in self.series])
        sizes[(sizes <= 0) | (self.waits.transfer_of_all_ns <= 0)] = np.nan
        return np.asarray(sizes * factors / np.maximum(self.waits.transfer_of_all_ns, 1))

    def in_cells(self, values: Int64Array, collectives: Mask, over: np.ufunc = np.add) -> Matrix:
        """Sum or maximum of the values of some collectives' kernels, by rank and step."""
        rows = self._inside[collectives[self.matches.of_row[self._inside]]]
        shape = len(self.steps.ranks), len(self.steps.numbers)
        cells = self.place[rows] * shape[1] + self.step[rows]
        found = np.zeros(shape[0] * shape[1])
        over.at(found, cells, values[rows])
        return found.reshape(shape)

    @cached_property
    def _inside(self) -> Int64Array:
        return np.flatnonzero((self.place >= 0) & (self.step >= 0))


def traffic_of(job: Job, steps: Steps, facts: Mapping[int, CommunicationFacts]) -> Traffic:
    """Assign the communication kernels of all ranks to the steps."""
    waits = job_waits(job)
    kernels, rows = waits.matches.kernels, waits.matches.rows
    places, at = kernels.place[rows], kernels.row[rows]
    columns = {
        name: np.full(rows.size, ELSEWHERE, dtype=np.int64)
        for name in ("place", "step", "exposed_wait_ns", "exposed_transfer_ns")
    }
    for number, rank in enumerate(kernels.ranks):
        own = np.flatnonzero(places == number)
        own = own[np.argsort(at[own], kind="stable")]
        each = facts[rank]
        columns["exposed_wait_ns"][own] = each.wait_ns
        columns["exposed_transfer_ns"][own] = each.transfer_ns
        columns["step"][own] = _positions(each.step, steps.numbers)
        if rank in steps.ranks:
            columns["place"][own] = steps.ranks.index(rank)
    return Traffic(steps, waits, **columns)


def _positions(step: Int64Array, numbers: tuple[int, ...]) -> Int64Array:
    if numbers == (NO_STEP,):
        return np.zeros_like(step)
    every = np.array(numbers)
    at = np.minimum(np.searchsorted(every, step), every.size - 1)
    return np.where(every[at] == step, at, ELSEWHERE)
