"""What a job needs to know of each rank, whatever is analysed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hta_widgets.errors import number_ranges
from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.model.formats import RANK_LIMIT
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.model.questions import Question
from hta_widgets.trace.ranks.clock import origin_of
from hta_widgets.trace.ranks.rank import Lacks, Rank

MOST_RANKS: Final = 2**20
"""A greater number of ranks in a trace is an error of the trace."""


def notices_of(rank: Rank) -> tuple[Notice, ...]:
    """What was left out or not matched on the rank."""
    return rank.notices


def lacks_of(rank: Rank) -> Lacks:
    """What the rank lacks because its format does."""
    return rank.lacks


def has_gpu_work(rank: Rank) -> bool:
    """Whether any GPU work of the rank is analysed."""
    return len(rank.gpu_work) > 0


def world_size_of(rank: Rank) -> int:
    """Number of ranks that the traced job had; 0 if the trace does not say it."""
    info = rank.trace.metadata.get("distributedInfo")
    stated = info.get("world_size") if isinstance(info, Mapping) else None
    return max(whole_number(stated, RANK_LIMIT) or 0, 0)


def missing_ranks(world_sizes: Mapping[int, int]) -> list[str]:
    """Notice on the ranks of a traced job that were not opened.

    Parameters
    ----------
    world_sizes : mapping of rank to int
        See `world_size_of`; of all ranks that were opened.
    """
    size = max(world_sizes.values(), default=0)
    missing = sorted({*range(size)} - world_sizes.keys()) if size <= MOST_RANKS else []
    if not missing or max(world_sizes) >= size:
        return []
    verb = "rank {} is" if len(missing) == 1 else "ranks {} are"
    are_missing = verb.format(number_ranges(missing))
    return [f"{are_missing} missing: the traces are of a job of {size:,} ranks"]


ALWAYS_ASKED: Final = (
    Question(origin_of),
    Question(notices_of),
    Question(lacks_of),
    Question(has_gpu_work),
    Question(world_size_of),
)
"""Asked along with the first question about a rank, so that it is not loaded again for these."""
