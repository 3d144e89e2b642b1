"""What a trace says by `json` of the standard library, and whether our reader agrees with it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.events import Trace

QUIET_PHASES = frozenset("XiIMstf")
FARTHEST_NS = 2**61
GZIP = b"\x1f\x8b"


class Row(NamedTuple):
    """An event that is loaded; times in ns, before rounding."""

    name: str
    start_ns: Fraction
    duration_ns: Fraction


class Meaning(NamedTuple):
    """What a document says.

    Attributes
    ----------
    rows : list of Row
        In order of the document.
    lost : int
        Entries that are no events, events without a time, and events of phases that are not read.
    metadata : dict
    """

    rows: list[Row]
    lost: int
    metadata: dict[str, object]


class Written(str):
    """A number as it is written."""

    __slots__ = ()


def meaning_of(content: bytes, *, errors: str = "strict", strict: bool = True) -> Meaning | None:
    """What bytes say; None if they are no trace, or are ambiguous.

    Parameters
    ----------
    content : bytes
    errors : str
        What to do with bytes that are not UTF-8, as in `bytes.decode`.
    strict : bool
        Whether control characters in strings are refused.
    """
    try:
        parsed = json.loads(
            _unpacked(content).decode("utf-8-sig", errors),
            strict=strict,
            parse_int=Written,
            parse_float=Written,
            parse_constant=lambda _: None,
            object_pairs_hook=_without_twins,
        )
    except (ValueError, zlib.error):
        return None
    events = parsed.get("traceEvents") if isinstance(parsed, dict) else parsed
    if not isinstance(events, list):
        return None
    if isinstance(parsed, list) and events and not isinstance(events[0], dict):
        return None
    rows: list[Row] = []
    lost = 0
    for event in events:
        row, is_lost = _read(event)
        rows += [row] if row else []
        lost += is_lost
    metadata = dict(parsed) if isinstance(parsed, dict) else {}
    metadata.pop("traceEvents", None)
    return Meaning(rows, lost, metadata)


def _unpacked(content: bytes) -> bytes:
    """Text of all gzip members; what follows them is padding."""
    if not content.startswith(GZIP):
        return content
    text = b""
    while content.startswith(GZIP):
        member = zlib.decompressobj(wbits=31)
        text += member.decompress(content)
        if not member.eof:
            msg = "cut"
            raise ValueError(msg)
        content = member.unused_data
    return text


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; two lists of events in one file are ambiguous."""
    if [key for key, _ in pairs].count("traceEvents") > 1:
        msg = "two lists of events"
        raise ValueError(msg)
    return dict(pairs)


def _read(event: object) -> tuple[Row | None, bool]:
    """The row of an event, and whether it is lost."""
    if not isinstance(event, dict):
        return None, True
    phase, category = (_text(event.get(key)) for key in ("ph", "cat"))
    if phase == "X" and (category or "").lower() == "trace":
        return None, False
    if phase not in {"X", "C"} and not (phase in {"i", "I"} and category is not None):
        return None, phase is None or phase not in QUIET_PHASES
    start = _nanoseconds(event.get("ts"))
    duration = _nanoseconds(event.get("dur")) if phase == "X" else Fraction(0)
    if start is None or duration is None or round(duration) < 0:
        return None, True
    return Row(_text(event.get("name")) or "", start, duration), False


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value)
    return value if value is None or isinstance(value, str) else ""


def _nanoseconds(value: object) -> Fraction | None:
    """Time (ns) of a number of µs, which may be in quotes."""
    if not isinstance(value, str):
        return None
    try:
        found = Decimal(value.strip('" '))
        if not abs(found) < FARTHEST_NS // 1000:
            return None
    except InvalidOperation:
        return None
    return Fraction(found) * 1000


def disagreements(path: Path) -> Iterator[str]:
    """What our reader makes of a file that the reference does not, in words."""
    meaning = meaning_of(path.read_bytes())
    try:
        trace = load_kineto(path, 0)
    except TraceFormatError as error:
        if str(path) not in str(error):
            yield f"the error does not name the file: {error}"
        if meaning is not None:
            yield f"refused, although it is JSON: {error}"
        return
    if meaning is None and trace.notices:
        return
    meaning = meaning or meaning_of(path.read_bytes(), errors="replace", strict=False)
    if meaning is None:
        yield f"{len(trace.events)} events loaded without a notice, although it is no JSON"
    else:
        yield from _differences(meaning, trace)


def _differences(meaning: Meaning, trace: Trace) -> Iterator[str]:
    table = trace.events
    names = table.names_at(range(len(table)))
    starts = (table.start_ns + trace.origin_ns - (trace.base_ns or 0)).tolist()
    ours = list(zip(names, starts, table.duration_ns.tolist(), strict=True))
    expected = sorted(meaning.rows, key=lambda row: round(row.start_ns))
    if len(expected) != len(ours):
        yield f"{len(ours)} events loaded, {len(expected)} expected; {trace.notices}"
        return
    for row, found in zip(expected, ours, strict=True):
        if not _is_same(row, *found):
            yield f"{found} loaded, {row} expected"
    lost = sum(sum(notice.counts) for notice in trace.notices if "left out" in notice.words)
    if lost != meaning.lost:
        yield f"{lost} events said to be left out, {meaning.lost} are"
    if set(trace.metadata) != set(meaning.metadata):
        yield f"metadata {set(trace.metadata)}, expected {set(meaning.metadata)}"


def _is_same(row: Row, name: str, start_ns: int, duration_ns: int) -> bool:
    """Whether an event is what it is written to be.

    Starts are exact. Durations pass through 64-bit floats, which may round a tie elsewhere.
    """
    tolerance = Fraction(1, 2) + abs(row.duration_ns) / 2**51
    return (
        name.encode("utf-8", "replace") == row.name.encode("utf-8", "replace")
        and start_ns == round(row.start_ns)
        and abs(duration_ns - row.duration_ns) <= tolerance
    )
