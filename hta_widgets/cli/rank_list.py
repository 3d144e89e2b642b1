"""Ranks as they are given on the command line."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import Final

from hta_widgets.trace.ranks.facts import MOST_RANKS

_RUN: Final = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)


def rank_list(text: str) -> tuple[int, ...]:
    """Read ranks as they are written in messages.

    Raises
    ------
    ArgumentTypeError
        If the text is something else.

    Examples
    --------
    >>> rank_list("0-2, 12")
    (0, 1, 2, 12)
    """
    ranks: list[int] = []
    for part in text.split(","):
        found = _RUN.fullmatch(part.strip())
        if found is None or len(ranks) > MOST_RANKS:
            raise _unclear(text)
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + MOST_RANKS:
            raise _unclear(text)
        ranks += range(first, last + 1)
    return tuple(ranks)


def _unclear(text: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"ranks must be numbers such as 0-7,12, got {text[:80]!r}")
