"""Pipelines: ranks that send activations forwards and gradients back.

::

    0 ⇄ 1 ⇄ 2 ⇄ 3        a pipeline of four stages
    4 ⇄ 5 ⇄ 6 ⇄ 7        its copy: ranks 0 and 4 are copies of one stage
    0 → 1 → 2 → 3 → 0    a ring, such as that of context parallelism: no pipeline
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hta_widgets.analyses.time.collectives.kernels import P2P, Series

Neighbours = Mapping[int, set[int]]


class Pipeline(NamedTuple):
    """Ranks by stage."""

    ranks: tuple[int, ...]

    def stage_of(self, rank: int) -> int:
        """Stage of a rank."""
        return self.ranks.index(rank)


def pipelines(all_series: Iterable[Series]) -> tuple[Pipeline, ...]:
    """Pipelines of a job, ascending by their first rank.

    Ranks that send to each other in both directions are neighbours; those connected are a pipeline.
    Stages count from the end with the lower rank; if it is closed (an interleaved schedule sends
    from the last stage to the first) or branches, the order of the ranks decides. Two ranks that
    exchange data for another reason look the same.

    Parameters
    ----------
    all_series : iterable of Series

    Examples
    --------
    >>> pairs = [(0, 2), (2, 0), (2, 1), (1, 2), (5, 6)]
    >>> pipelines([Series("p2p", "pp", pair, 2) for pair in pairs])
    (Pipeline(ranks=(0, 2, 1)),)
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
            found.append(Pipeline(_in_order(neighbours, connected)))
    return tuple(found)


def copies_of_stages(found: Iterable[Pipeline]) -> list[tuple[int, ...]]:
    """Ranks with the same stage, for each stage; of pipelines that are equally long.

    Examples
    --------
    >>> copies_of_stages([Pipeline((0, 1)), Pipeline((2, 3))])
    [(0, 2), (1, 3)]
    """
    chosen = list(found)
    if len({len(each.ranks) for each in chosen}) != 1:
        return []
    return list(zip(*(each.ranks for each in chosen), strict=True))


def _connected(neighbours: Neighbours, rank: int) -> set[int]:
    reached, waiting = {rank}, [rank]
    while waiting:
        new = neighbours[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached


def _in_order(neighbours: Neighbours, connected: set[int]) -> tuple[int, ...]:
    """Ranks along the chain, if it is one."""
    ends = [rank for rank in sorted(connected) if len(neighbours[rank]) == 1]
    is_chain = len(ends) == 2 and all(len(neighbours[rank]) <= 2 for rank in connected)  # noqa: PLR2004
    if not is_chain:
        return tuple(sorted(connected))
    chain = [ends[0]]
    while len(chain) < len(connected):
        chain.extend(neighbours[chain[-1]] - set(chain[-2:]))
    return tuple(chain)
