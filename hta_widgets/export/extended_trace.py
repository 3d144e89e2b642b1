"""Copy a trace file and add events to it, without holding the file in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import ParameterError, write_errors
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.brackets import WHITE
from hta_widgets.trace.loaders.kineto.decode import Fields, decode_fields
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.loaders.kineto.mark import add_mark
from hta_widgets.trace.loaders.kineto.packing import is_gzip, packing_of
from hta_widgets.trace.loaders.kineto.repair import are_values
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.remote.urls import PathLike

try:
    from isal import igzip as gzip
except ImportError:  # isal has no wheel for some platforms; the standard library is only slower
    import gzip

BETWEEN = b",\n"
"""Separator of added events."""

_COMPRESSION_LEVEL = 3
_PACKED = (".xz", ".zst")
_LONGEST_FIRST = sorted(KINETO.suffixes, key=len, reverse=True)


def path_beside(source: Path, suffix: str) -> Path:
    """Path of a copy in the same folder, with `suffix` before ``.json``, ``.json.gz`` or ``.gz``.

    Raises a `ParameterError` if the suffix is empty or is not part of a file name.

    Examples
    --------
    >>> path_beside(Path("my.json/rank0.json.gz"), "_new").as_posix()
    'my.json/rank0_new.json.gz'
    >>> path_beside(Path("rank0.json.xz"), "_new").as_posix()
    'rank0_new.json.gz'
    >>> path_beside(Path("trace"), "_new").as_posix()
    'trace_new'
    """
    if not suffix or suffix != os.path.basename(suffix):  # noqa: PTH119
        msg = f"output_suffix {suffix!r} does not give a new file name; use one such as '_new'"
        raise ParameterError(msg)
    ending = next((each for each in _LONGEST_FIRST if source.name.endswith(each)), "")
    return source.with_name(f"{source.name.removesuffix(ending)}{suffix}{name_of_copy(ending)}")


def name_of_copy(name: str) -> str:
    """Name of a copy of a file; it is gzipped if the file is compressed in another way.

    Examples
    --------
    >>> name_of_copy("rank0.json.zst"), name_of_copy("rank0.json")
    ('rank0.json.gz', 'rank0.json')
    """
    packed = next((each for each in _PACKED if name.endswith(each)), None)
    return name if packed is None else f"{name.removesuffix(packed)}.gz"


def write_extended(source: Path, target: Path, events: Iterable[bytes]) -> None:
    """Write a copy of a trace with more events, gzipped if the trace is compressed.

    The copy is written atomically. Its bytes are those of the source, except for the mark before
    the events (see `trace.loaders.kineto.mark`) and the events added after the last one. Each
    item is the JSON of one or more events, separated by `BETWEEN`. A truncated file is closed after
    its last complete event.
    """
    with atomic_open(target, compressed_like=source) as out:
        for part in _extended(EventText(source), events):
            out.write(part)


def _extended(text: EventText, events: Iterable[bytes]) -> Iterator[bytes]:
    text.header()
    before = add_mark(text.head, text.path.name)
    rest = b""
    is_empty = True
    for piece in text:
        complete = piece[1:-1] if are_values(piece) else text.hold_back(piece[1:-1])
        whole = complete.rstrip(WHITE + b",")
        if not whole:
            continue
        yield before + whole
        rest = complete[len(whole) :]
        before = rest + text.gap
        is_empty = False
    for added in events:
        yield (before if is_empty else BETWEEN) + added
        is_empty = False
    yield (before if is_empty else rest.replace(b",", b"")) + closing(text)


def closing(text: EventText) -> bytes:
    """End of the file; the bare-array form has become the object form."""
    is_bare = text.head.lstrip(WHITE).startswith(b"[")
    return b"\n]}\n" if is_bare else b"\n]" + text.tail if text.truncated else b"]" + text.tail


@contextmanager
def atomic_open(target: Path, *, compressed_like: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces the target at the end, gzipped if the original is compressed.

    Raises `WriteError` if the system refuses to write it; nothing of it is left then.
    """
    with compressed_like.open("rb") as file:
        compressed = is_gzip(file) or packing_of(file) is not None
    with (
        write_errors(target),
        atomic_write(target) as partial,
        gzip.open(partial, "wb", compresslevel=_COMPRESSION_LEVEL)
        if compressed
        else partial.open("wb") as out,
    ):
        yield out


def existing_folder(output_dir: PathLike) -> Path:
    """Return the folder to write to.

    Raises `ParameterError` if it does not exist or is not writable.
    """
    folder = Path(output_dir).expanduser()
    if not os.fspath(output_dir) or not folder.is_dir():
        state = "is a file" if folder.is_file() else "does not exist"
        msg = f"output_dir {os.fspath(output_dir)!r} {state}; give an existing folder"
        raise ParameterError(msg)
    if not os.access(folder, os.W_OK | os.X_OK):
        msg = f"output_dir {folder} is not writable; give another folder"
        raise ParameterError(msg)
    return folder


def require_no_trace(job: Job, target: Path) -> None:
    """Make sure that a copy would not replace a trace.

    Raises `ParameterError` if it would.
    """
    if target.resolve() in {source.path.resolve() for source in job.sources.values()}:
        msg = f"{target} is a trace of this job and is never overwritten; give another output_dir"
        raise ParameterError(msg)


Change = Callable[[int, Fields], bool]

_encode = msgspec.json.encode


def rewritten(text: EventText, change: Change) -> Iterator[bytes]:
    """Text of a copy without its end (see `closing`), piece by piece.

    `change` gets the position of an event in the file and its fields, which it may change, and
    returns whether the event stays.
    """
    text.header()
    before = add_mark(text.head, text.path.name) + b"\n"
    position = 0
    for piece in text:
        reading = decode_fields(piece, text.separator, text.hold_back)
        places = range(position, position + len(reading.events))
        kept = [
            event
            for place, event in zip(places, reading.events, strict=True)
            if change(place, event)
        ]
        position += len(reading.events) + reading.dropped
        if kept:
            yield before + BETWEEN.join(map(_encode, kept))
            before = BETWEEN
    if before is not BETWEEN:
        yield before


def add_argument(event: Fields, key: str, value: msgspec.Raw) -> None:
    """Add an argument to an event; arguments that are not an object become one."""
    args = event.get("args")
    try:
        known = msgspec.json.decode(args or b"{}", type=Fields | None) or {}
    except msgspec.ValidationError:
        known = {"args": msgspec.Raw(args or b"")}
    event["args"] = msgspec.Raw(_encode({**known, key: value}))
