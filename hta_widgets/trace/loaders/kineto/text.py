"""Cut the text of a trace file into pieces of whole events, a third of a megabyte at a time.

The whole file is never in memory, and no layout is assumed: the separator, the text that every
event starts with, is learnt from the first event. So Kineto's layouts of all years, re-saved files
and single-line files can all be read. ``EventText._cut`` splits the text read so far before the
last separator::

    {"traceEvents": [{"ph": "X", ...}, {"ph": "X", ...}, {"ph": "X", ..
    |----- head ----||----------- yielded ------------||||--- kept ---|
                                                       gap

A separator may also be inside an event, in its arguments. A cut there leaves brackets open, and the
piece cannot be decoded. ``EventText.hold_back`` then takes back the event that was cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from hta_widgets.trace.loaders.decompression_limit import most_unpacked_bytes
from hta_widgets.trace.loaders.kineto import refusals
from hta_widgets.trace.loaders.kineto.brackets import (
    WHITE,
    key_of_outermost,
    length_without,
    whole_until,
)
from hta_widgets.trace.loaders.kineto.ending import Ending, end_of_list, ending_of, metadata_in
from hta_widgets.trace.loaders.kineto.packing import (
    Packing,
    gunzipped,
    is_gzip,
    packing_of,
    unpacked,
)
from hta_widgets.trace.loaders.kineto.repair import are_values, listed

BLOCK_BYTES = 3 << 17
"""Size of a piece. What is decoded from it stays in the CPU's caches; 1 MB is up to 10 % slower."""

LONGEST_BYTES = 1 << 28
"""Most text without a complete event; a gzip file of a few MB may hold any amount of blanks."""

_RELEARN_BYTES = BLOCK_BYTES
"""Length of text without the known separator after which another one is learnt."""
_HELD_BYTES = 1 << 22
"""A cut event that is longer than this counts as one that is not JSON."""

_OPENING_BYTES = 1 << 10
"""Length of text within which an event must start like one to teach a separator."""

_HEAD_BYTES = 1 << 16
_END_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_FIRST_EVENT = re.compile(rb'\s*(\{\s*"[^"\\]{0,64}"\s*:)')
_NEXT_EVENT = re.compile(rb'\}\s*,\s*(\{\s*"(?:ph|name|cat|ts|pid|tid|dur|args|id)"\s*:)')
_BETWEEN = WHITE + b","


class EventText:
    """The text of one Kineto (Chrome trace) file.

    Iterating yields ``bytes``: JSON lists of events, each of which starts with the `separator`,
    such as ``{"ph":``. The `head` is the text before the events, with the opening bracket. While
    iterating, the `gap` is the text between the last piece and the next. After iterating, these
    are known: the `tail`, the usable text after the closing bracket; the `ending`; whether the
    file is `truncated`, so that its document or its gzip stream does not end; and whether it is
    `damaged`, so that decompression failed or a checksum is wrong.
    """

    def __init__(self, path: Path, on_read: Callable[[int], object] | None = None) -> None:
        self.path = path
        self._on_read = on_read
        self.separator = b"{"
        self.truncated = False
        self.damaged = False
        self.head = b""
        self.tail = b""
        self.gap = b""
        self.ending = Ending(b"", truncated=True)
        self._held = b""
        self._may_hold = True

    def __iter__(self) -> Iterator[bytes]:
        """Yield lists of whole events."""
        self._may_hold = True
        with self.path.open("rb") as file:
            blocks = self._inflated(file)
            pending = PendingText(self._read_head(blocks))
            for block in blocks:
                if not self._add(pending, block):
                    continue
                whole, rest = self._cut(pending.text)
                if whole:
                    del block, pending
                    yield whole
                    del whole
                    held = len(self._held)
                    pending = PendingText(self._with_held(rest), held)
            yield from self._finish(pending.text)

    def hold_back(self, piece: bytes) -> bytes:
        """Take back the part of a cut event, or the text after the events, in the last piece.

        A long part is not taken back: then it was not a cut that made the piece unreadable. The
        piece is as yielded, without the brackets. Returns its whole events; the rest comes with
        the next piece.
        """
        end = end_of_list(piece)
        end = whole_until(piece) if end is None else end
        rest = piece[end:]
        held = rest.lstrip(_BETWEEN)
        is_apart = not end or held.startswith(b"]") or b"," in rest[: len(rest) - len(held)]
        if not held or not is_apart or not self._may_hold or len(held) > _HELD_BYTES:
            return piece
        self._held, self.gap = held + self.gap, rest[: len(rest) - len(held)]
        return piece[:end]

    def header(self) -> dict[str, Any]:
        """Metadata before the events, without reading them."""
        return self.header_and_events()[0]

    def header_and_events(self) -> tuple[dict[str, Any], bytes]:
        """Metadata before the events, and the text of the first events that was read with it.

        That text may end anywhere, even after a few bytes.
        """
        with self.path.open("rb") as file:
            events = self._read_head(self._inflated(file, _HEAD_BYTES))
        return self.metadata(), events

    def metadata(self) -> dict[str, Any]:
        """Everything in the file but the events; metadata after them only after iterating."""
        return metadata_in(self.head, self.tail or b"}")

    def metadata_around_events(self) -> dict[str, Any]:
        """Everything in the file but the events, without decoding them.

        Only both ends of a plain file are read; a gzip file is decompressed to its end.
        """
        with self.path.open("rb") as file:
            end = self._read_end(file)
        if self._last_separator(end):
            for _ in self._finish(end):
                pass
        if not self.ending.is_sound:
            for piece in self:
                if not are_values(piece):
                    self.hold_back(piece[1:-1])
        return self.metadata()

    def _read_end(self, file: IO[bytes]) -> bytes:
        """Read the head, and then the last bytes."""
        may_skip = not (is_gzip(file) or packing_of(file))
        blocks = self._inflated(file)
        text = self._read_head(blocks)
        if may_skip:
            position, size = file.tell(), file.seek(0, os.SEEK_END)
            file.seek(max(position, size - _END_BYTES))
        for block in blocks:
            text = (text + block)[-_END_BYTES:]
        return text

    def _inflated(self, file: IO[bytes], size: int | None = None) -> Iterator[bytes]:
        """Yield decompressed blocks of at most `size` bytes."""
        size = size or BLOCK_BYTES
        blocks = self._blocks(file, size)
        if packing := packing_of(file):
            return self._bounded(self._unpack(blocks, size, packing), file)
        return self._bounded(self._gunzip(blocks, size), file) if is_gzip(file) else blocks

    def _bounded(self, unpacked: Iterator[bytes], file: IO[bytes]) -> Iterator[bytes]:
        """Yield no more text than a trace in a file of this size can have."""
        packed_bytes = os.fstat(file.fileno()).st_size
        left = most_unpacked_bytes(packed_bytes)
        for block in unpacked:
            left -= len(block)
            if left < 0:
                raise refusals.too_packed(self.path, packed_bytes)
            yield block

    def _unpack(self, blocks: Iterator[bytes], size: int, packing: Packing) -> Iterator[bytes]:
        self.damaged = yield from unpacked(blocks, size, packing)

    def _blocks(self, file: IO[bytes], size: int) -> Iterator[bytes]:
        while block := file.read(size):
            yield block
            if self._on_read is not None:
                self._on_read(len(block))

    def _gunzip(self, blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
        self.damaged, self.truncated = yield from gunzipped(blocks, size)

    def _read_head(self, blocks: Iterator[bytes]) -> bytes:
        """Read up to the first event; return the text that was read beyond it."""
        pending = PendingText()
        for block in blocks:
            if self._add(pending, block) and self._is_head(pending.text):
                break
        text = pending.text.removeprefix(_BYTE_ORDER_MARK)
        start = self._events_start(text)
        if start is None:
            raise refusals.no_events(self.path, text)
        self._learn_separator(text[start:])
        refusals.refuse_other_lists(self.path, text[:start], text[start:])
        self.head = text[:start]
        return text[start:]

    def _add(self, pending: PendingText, block: bytes) -> bool:
        due = pending.add(block)
        if pending.size > LONGEST_BYTES:
            raise refusals.too_long(self.path, LONGEST_BYTES)
        return due

    def _is_head(self, text: bytes) -> bool:
        """Whether the text reaches into the first event, or to the end of an empty list."""
        if _BYTE_ORDER_MARK.startswith(text):
            return False
        text = text.removeprefix(_BYTE_ORDER_MARK)
        start = self._events_start(text)
        return start is not None and self._learn_separator(text[start:])

    def _learn_separator(self, text: bytes) -> bool:
        """Learn how events start; False if that takes more text."""
        rest = text.lstrip(WHITE)  # faster than a pattern for megabytes of blanks
        first = _FIRST_EVENT.match(rest)
        if first:
            self.separator = first[1]
            return True
        return len(rest) > _OPENING_BYTES or rest.startswith(b"]")

    def _events_start(self, text: bytes) -> int | None:
        opening = text.lstrip(WHITE)[:1]
        if opening == b"[":
            return text.index(b"[") + 1
        if opening not in (b"{", b""):
            raise refusals.not_json(self.path, text)
        return key_of_outermost(text, _EVENTS_KEY)

    def _cut(self, text: bytes) -> tuple[bytes, bytes]:
        """Split before the last event, into a JSON list and the rest.

        The first part is empty if no event is surely complete.
        """
        if text.startswith(b"]"):  # held back from after the events
            return b"", text
        cut = self._last_separator(text)
        if not cut and len(text) > _RELEARN_BYTES:
            self._relearn_separator(text)
            cut = self._last_separator(text)
        if not cut:
            return b"", text
        comma = text.rindex(b",", 0, cut)
        self.gap = text[comma:cut]
        return listed(memoryview(text)[:comma]), text[cut:]

    def _relearn_separator(self, text: bytes) -> None:
        """Learn another separator, as the first event was not written like the others."""
        found = _NEXT_EVENT.findall(text, max(0, len(text) - BLOCK_BYTES))
        if found:
            self.separator = found[-1]

    def _last_separator(self, text: bytes) -> int:
        """Position of the last event that follows another one; 0 if there is none."""
        cut = text.rfind(self.separator)
        while cut > 0:
            comma = length_without(text, cut, WHITE) - 1
            if text[max(comma, 0) : comma + 1] == b",":
                brace = length_without(text, comma, WHITE) - 1
                if text[max(brace, 0) : brace + 1] == b"}":
                    return cut
            cut = text.rfind(self.separator, 0, cut)
        return 0

    def _finish(self, text: bytes) -> Iterator[bytes]:
        """Yield the last events, and remember how the text ends."""
        whole, rest = self._cut(text)
        ending = ending_of(self.head, rest)
        if ending.truncated and not self.gap:  # only the first event starts as it does
            self._relearn_separator(text)
            whole, rest = self._cut(text)
            ending = ending_of(self.head, rest)
        if not ending.is_sound:
            of_all = ending_of(self.head, text)
            if of_all.is_sound:  # the cut was inside an event
                whole, ending = b"", of_all
        if whole:
            yield whole
            held, self._held = self._held, b""
            of_all = ending_of(self.head, held + rest)
            is_cut = held.startswith(b"]") or of_all.is_sound or not ending.is_sound
            ending = of_all if is_cut else ending._replace(events=held + ending.events)
        self._may_hold = False
        if ending.events.strip(WHITE):
            yield listed(ending.events)
        self.ending, self.tail = ending, ending.tail
        self.truncated = self.truncated or ending.truncated

    def _with_held(self, text: bytes) -> bytes:
        """Text, with what was held back in front of it."""
        held, self._held = self._held, b""
        return held + text


class PendingText:
    """Text that has been read but not yet cut, some of which has been looked at.

    It is looked at again only when it has doubled. This bounds the time by its length, however
    long a run of blanks or a string in it is.
    """

    def __init__(self, text: bytes = b"", seen: int = 0) -> None:
        self._parts = [text]
        self.size = len(text)
        self._due_size = 2 * seen

    def add(self, block: bytes) -> bool:
        """Add a block; return whether the text should be looked at again."""
        self._parts.append(block)
        self.size += len(block)
        return self.size >= self._due_size

    @property
    def text(self) -> bytes:
        """All of the text."""
        self._parts = [b"".join(self._parts)]
        self._due_size = 2 * self.size
        return self._parts[0]
