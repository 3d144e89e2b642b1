"""Notices about what was dropped, left out or not matched: counted per rank, merged per job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hta_widgets.quantities import named_numbers


class Notice(NamedTuple):
    """Words with a ``{}`` for each count; notices with equal words are merged across ranks.

    Examples
    --------
    >>> Notice("{} of {} events are odd", (2, 1500)).text()
    '2 of 1,500 events are odd'
    """

    words: str
    counts: tuple[int, ...] = ()

    def text(self) -> str:
        """Words with the counts filled in."""
        return self.words.format(*(f"{count:,}" for count in self.counts))


def merge_notices(notices: Mapping[int, Iterable[Notice]], *, name_ranks: bool) -> list[str]:
    """Merge equal notices of several ranks, summing their counts; each may start with its ranks."""
    by_words: dict[str, dict[int, tuple[int, ...]]] = {}
    for rank, of_rank in notices.items():
        for notice in of_rank:
            by_words.setdefault(notice.words, {})[rank] = notice.counts
    return [
        (f"{named_numbers('rank', counts)}: " if name_ranks else "")
        + Notice(words, tuple(map(sum, zip(*counts.values(), strict=True)))).text()
        for words, counts in by_words.items()
    ]
