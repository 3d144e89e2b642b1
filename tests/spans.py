"""Spans of time in plain Python, without code of the package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Time = TypeVar("Time", int, float)


def merged(spans: Iterable[tuple[Time, Time]]) -> list[tuple[Time, Time]]:
    """What any of the spans covers, in order; those that touch become one."""
    found: list[tuple[Time, Time]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def length(spans: Iterable[tuple[Time, Time]]) -> Time:
    """Time of spans that do not overlap."""
    return sum(end - start for start, end in spans)
