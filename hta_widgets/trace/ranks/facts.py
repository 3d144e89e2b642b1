"""What a job needs to know of each rank, whatever is analysed."""

from __future__ import annotations

from typing import Final

from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.model.questions import Question
from hta_widgets.trace.ranks.clock import origin_of
from hta_widgets.trace.ranks.rank import Lacks, Rank


def notices_of(rank: Rank) -> tuple[Notice, ...]:
    """What was left out or not matched on the rank."""
    return rank.notices


def lacks_of(rank: Rank) -> Lacks:
    """What the rank lacks because its format does."""
    return rank.lacks


ALWAYS_ASKED: Final = (Question(origin_of), Question(notices_of), Question(lacks_of))
"""Asked along with the first question about a rank, so that it is not loaded again for these."""
