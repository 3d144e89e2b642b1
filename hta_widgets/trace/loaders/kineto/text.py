"""Cut the text of a trace file into pieces of whole events, a third of a megabyte at a time.

The whole file is never in memory, and no layout is assumed: the separator, the text that every
event starts with, is learnt from the first event. So Kineto's layouts of all years, re-saved files
and files of one line are all read. ``EventText._cut`` splits what has been read before the last
separator::

    {"traceEvents": [{"ph": "X", ...}, {"ph": "X", ...}, {"ph": "X", ..
    |----- head ----||----------- yielded ------------||||--- kept ---|
                                                       gap

A separator may also be inside an event, in its arguments; a cut there leaves brackets open, which
the decoder notices.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.kineto.brackets import closing_bracket, length_without
from hta_widgets.trace.loaders.kineto.pending_text import PendingText
from hta_widgets.trace.loaders.magic import archive_kind

try:
    from isal import isal_zlib as zlib
except ImportError:  # isal has no wheels for some platforms; the standard library is only slower
    import zlib  # type: ignore[no-redef]

_CORRUPT: type[Exception] = zlib.error  # type: ignore[assignment]  # isal says instance
BLOCK_BYTES = 3 << 17
"""What is decoded from this much text stays in the CPU's caches; 1 MB is up to 10 % slower."""

_RELEARN_BYTES = 1 << 22
_OPENING_BYTES = 1 << 10
"""An event that does not start like one within this much text teaches no separator."""

_HEAD_BYTES = 1 << 16
_END_BYTES = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_FIRST_EVENT = re.compile(rb'\s*(\{\s*"[^"\\]{0,64}"\s*:)')
_HATCHET = re.compile(rb'\s*\{\s*"(?:children|frame|metrics)"\s*:')
_NEXT_EVENT = re.compile(rb'\}\s*,\s*(\{\s*"(?:ph|name|cat|ts|pid|tid|dur|args|id)"\s*:)')
_WHITE = b" \t\r\n"


class EventText:
    """The text of one Kineto (Chrome trace) file.

    Iterating yields ``bytes``: events separated by commas, without the brackets around them.

    Attributes
    ----------
    separator : bytes
        Text that every event of this file starts with, such as ``{"ph":``.
    head, tail : bytes
        The text before the events, including the opening bracket, and the text after the closing
        bracket, which is known after iterating.
    gap : bytes
        While iterating: the text between the last piece and the next.
    truncated : bool
        After iterating: whether the file ends before its list of events does.
    damaged : bool
        After iterating: whether decompression failed, or a checksum of the file is wrong.
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

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces of whole events."""
        with self.path.open("rb") as file:
            blocks = self._inflated(file)
            pending = PendingText(self._read_head(blocks))
            for block in blocks:
                if not pending.add(block):
                    continue
                whole, rest = self._cut(pending.text)
                if whole:
                    yield whole
                    pending = PendingText(rest)
            yield from self._finish(pending.text)

    def header(self) -> dict[str, Any]:
        """Metadata before the events, without reading them."""
        with self.path.open("rb") as file:
            self._read_head(self._inflated(file, _HEAD_BYTES))
        return self.metadata()

    def metadata(self) -> dict[str, Any]:
        """Everything in the file but the events; metadata after them only after iterating."""
        for text in (self.head + b"]" + self.tail, self.head + b"]}"):
            try:
                parsed = json.loads(text.decode("utf-8", "replace"), strict=False)
            except (ValueError, RecursionError):
                continue
            if isinstance(parsed, dict):
                return {key: value for key, value in parsed.items() if key != "traceEvents"}
        return {}

    def metadata_around_events(self) -> dict[str, Any]:
        """Everything in the file but the events, without decoding them.

        Only both ends of a plain file are read; a gzip file is decompressed to its end.
        """
        with self.path.open("rb") as file:
            end = self._read_end(file)
        for _ in self._finish(end) if self._last_separator(end) else self:
            pass
        return self.metadata()

    def _read_end(self, file: IO[bytes]) -> bytes:
        """Read the head, and then the last bytes."""
        may_skip = not _is_gzip(file)
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
        return self._gunzip(blocks, size) if _is_gzip(file) else blocks

    def _blocks(self, file: IO[bytes], size: int) -> Iterator[bytes]:
        while block := file.read(size):
            yield block
            if self._on_read is not None:
                self._on_read(len(block))

    def _gunzip(self, blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
        member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        is_within, is_first = False, True
        for block in blocks:
            pending = block
            while pending:
                try:
                    inflated = member.decompress(pending, size)
                except _CORRUPT:
                    self.damaged = is_within or is_first
                    return
                is_within = bool(inflated) or is_within
                yield inflated
                pending = member.unconsumed_tail
                if member.eof:
                    pending = member.unused_data
                    member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
                    is_within = is_first = False  # what follows may be padding
        yield member.flush()

    def _read_head(self, blocks: Iterator[bytes]) -> bytes:
        """Read up to the first event; return the text that was read beyond it."""
        pending = PendingText()
        for block in blocks:
            if pending.add(block) and self._is_head(pending.text):
                break
        text = pending.text.removeprefix(_BYTE_ORDER_MARK)
        start = self._events_start(text)
        if start is None:
            raise TraceFormatError(self._no_events_message(text))
        self._learn_separator(text[start:])
        self._refuse_other_lists(text[:start], text[start:])
        self.head = text[:start]
        return text[start:]

    def _is_head(self, text: bytes) -> bool:
        """Whether the text reaches into the first event, or to the end of an empty list."""
        text = text.removeprefix(_BYTE_ORDER_MARK)
        start = self._events_start(text)
        return start is not None and self._learn_separator(text[start:])

    def _learn_separator(self, text: bytes) -> bool:
        """Learn how events start; False if more text may tell."""
        first = _FIRST_EVENT.match(text)
        if first:
            self.separator = first[1]
            return True
        rest = text.lstrip(_WHITE)
        return len(rest) > _OPENING_BYTES or rest.startswith(b"]")

    def _events_start(self, text: bytes) -> int | None:
        opening = text.lstrip(_WHITE)[:1]
        if opening == b"[":
            return text.index(b"[") + 1
        if opening not in (b"{", b""):
            raise TraceFormatError(self._not_json_message(text))
        found = _EVENTS_KEY.search(text)
        return found.end() if found else None

    def _cut(self, text: bytes) -> tuple[bytes, bytes]:
        """Split before the last event; the first part is empty if no event is surely complete."""
        cut = self._last_separator(text)
        if not cut and len(text) > _RELEARN_BYTES:
            self._relearn_separator(text)
            cut = self._last_separator(text)
        if not cut:
            return b"", text
        comma = text.rindex(b",", 0, cut)
        self.gap = text[comma:cut]
        return text[:comma], text[cut:]

    def _relearn_separator(self, text: bytes) -> None:
        """Learn another separator, as the first event was not written like the others."""
        found = _NEXT_EVENT.findall(text, max(0, len(text) - BLOCK_BYTES))
        if found:
            self.separator = found[-1]

    def _last_separator(self, text: bytes) -> int:
        """Position of the last event that follows another one; 0 if there is none."""
        cut = text.rfind(self.separator)
        while cut > 0:
            comma = length_without(text, cut, _WHITE) - 1
            if text[max(comma, 0) : comma + 1] == b",":
                brace = length_without(text, comma, _WHITE) - 1
                if text[max(brace, 0) : brace + 1] == b"}":
                    return cut
            cut = text.rfind(self.separator, 0, cut)
        return 0

    def _finish(self, text: bytes) -> Iterator[bytes]:
        """Yield the last events and keep the text after them as `tail`."""
        whole, text = self._cut(text)
        end = _end_of_list(text)
        if end is None and not self.gap:  # no event but the first starts as it does
            self._relearn_separator(text)
            whole, text = self._cut(text)
            end = _end_of_list(text)
        if whole:
            yield whole
        if end is None:
            self.truncated = True
            end = _end_of_first_object(text)
        if text[:end].strip(_WHITE):
            yield text[:end]
        self.tail = text[end + 1 :]

    def _refuse_other_lists(self, head: bytes, first: bytes) -> None:
        """Refuse a bare list of anything but events."""
        if not head.lstrip(_WHITE).startswith(b"["):
            return
        what = "a Proton profile (.hatchet)" if _HATCHET.match(first) else ""
        if first.lstrip(_WHITE)[:1] not in (b"{", b"]", b""):
            what = "a list of other things than events, such as a memory timeline"
        if what:
            msg = (
                f"{self.path} is {what}, not a trace; "
                "export a trace with torch.profiler's export_chrome_trace"
            )
            raise TraceFormatError(msg)

    def _not_json_message(self, text: bytes) -> str:
        if kind := archive_kind(text):
            return f"{self.path} is packed ({kind}); unpack it and give the trace in it"
        return (
            f"{self.path} is not a JSON trace: it does not begin with '{{' or '['; "
            "expected a PyTorch-profiler (Kineto) trace, *.json or *.json.gz"
        )

    def _no_events_message(self, text: bytes) -> str:
        if not text.strip(_WHITE):
            return f"{self.path} is empty or cannot be decompressed; copy or export it again"
        return (
            f"{self.path} has no 'traceEvents': it is JSON, but not a PyTorch-profiler (Kineto) "
            "trace; export one with torch.profiler's export_chrome_trace"
        )


def _is_gzip(file: IO[bytes]) -> bool:
    """Whether the file starts with gzip's magic bytes; the position is restored."""
    first = file.read(len(_GZIP_MAGIC))
    file.seek(0)
    return first == _GZIP_MAGIC


def _end_of_list(text: bytes) -> int | None:
    """Position of the bracket that closes the list of events, which was opened earlier."""
    end = closing_bracket(text, depth=1)
    return None if end is None else end - 1


def _end_of_first_object(text: bytes) -> int:
    """Position after the first complete object; 0 if it is truncated."""
    return closing_bracket(text, depth=0) or 0
