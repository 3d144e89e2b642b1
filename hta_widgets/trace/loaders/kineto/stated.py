"""Where and when a file was recorded: its rank, process and time, from its first bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Final

from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.loaders.kineto.categories import kind_of
from hta_widgets.trace.loaders.kineto.load import BASE_TIME
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.formats import RANK_LIMIT, Metadata, Stated

_ON_THE_CPU: Final = {Kind.CPU_OP, Kind.RUNTIME, Kind.DRIVER, Kind.ANNOTATION, Kind.PYTHON}
"""Kinds of events of which the process id is that of the system; of GPU work it is the device."""

_EVENTS_READ: Final = 32
_TEXT_READ: Final = 2**16
_EPOCH_US: Final = 10**15
"""Times (µs) from here on count from 1970; a clock that started later gets there in 31 years."""

_LATEST_US: Final = 2**63 // 1000
_STEP: Final = re.compile(rb'"ProfilerStep\s*#(\d{1,9})"')
_GPU_WORK: Final = re.compile(
    rb'"cat"\s*:\s*"(?:concurrent_)?(?:kernel|(?:gpu_)?mem(?:cpy|set)|mtia_ccp_events)"',
    re.IGNORECASE,
)
_BETWEEN: Final = " \t\r\n,"
_DECODER: Final = json.JSONDecoder(strict=False)


def stated(metadata: Metadata, events: bytes) -> Stated:
    """What the metadata before the events and the first events state.

    Parameters
    ----------
    metadata : mapping
    events : bytes
        The text from the first event on, which may end anywhere.
    """
    rank, world_size = distributed(metadata)
    base_ns = whole_number(metadata.get(BASE_TIME))
    start_us, process = None, None
    for event in _first_events(events):
        if event.get("ph") != "X":
            continue
        start_us = _time_us(event.get("ts")) if start_us is None else start_us
        category = event.get("cat")
        if isinstance(category, str) and kind_of("X", category) in _ON_THE_CPU:
            process = whole_number(event.get("pid"))
            break
    is_since_epoch = start_us is not None and (base_ns is not None or start_us >= _EPOCH_US)
    step = _STEP.search(events)
    return Stated(
        rank=rank,
        world_size=world_size,
        process=process,
        start_ns=None if start_us is None else start_us * 1000 + (base_ns or 0),
        is_since_epoch=is_since_epoch,
        step=int(step[1]) if step else None,
    )


def distributed(metadata: Metadata) -> tuple[int | None, int | None]:
    """Rank and size of the job in ``distributedInfo``; None for what is not stated."""
    info = metadata.get("distributedInfo")
    if not isinstance(info, Mapping):
        return None, None
    rank, size = (whole_number(info.get(key), RANK_LIMIT) for key in ("rank", "world_size"))
    return (
        None if rank is None or rank < 0 else rank,
        None if size is None or size < 1 else size,
    )


def has_gpu_work(path: Path) -> bool:
    """Whether a file has GPU work; it is read up to the first, and nothing is decoded."""
    return any(_GPU_WORK.search(piece) for piece in EventText(path))


def _first_events(text: bytes) -> Iterator[Mapping[str, Any]]:
    """The first events that are whole and JSON."""
    decoded = text[:_TEXT_READ].decode("utf-8", "replace")
    place = 0
    for _ in range(_EVENTS_READ):
        while decoded[place : place + 1] in _BETWEEN and place < len(decoded):
            place += 1
        try:
            event, place = _DECODER.raw_decode(decoded, place)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            yield event


def _time_us(value: object) -> int | None:
    """A time as a whole number of µs; None if it is none, or none that nanoseconds can hold."""
    try:
        time = float(value) if isinstance(value, int | float | str) else float("nan")
    except (ValueError, OverflowError):
        return None
    return int(time) if isfinite(time) and abs(time) < _LATEST_US else None
