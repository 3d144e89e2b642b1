"""Trace files compressed with gzip, or with xz or Zstandard if Python has a module for it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import IO, Final, NamedTuple, Protocol

try:
    from isal import isal_zlib as zlib
except ImportError:  # isal has no wheels for some platforms; the standard library is only slower
    import zlib  # type: ignore[no-redef]

ZSTD_MODULES: Final = ["compression.zstd", "backports.zstd"]
"""The module of Python 3.14, and its backport for older versions (the extra ``zstd``)."""

_XZ_MEMORY_BYTES: Final = 1 << 28
"""Most memory that decompression may use, whatever a file asks for; ``xz -9`` uses a quarter."""

_CORRUPT: type[Exception] = zlib.error  # type: ignore[assignment]  # isal says instance
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31


class Stream(Protocol):
    """A compressed stream; a file may have several."""

    @property
    def eof(self) -> bool:
        """Whether it has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether all that was given is decompressed."""

    @property
    def unused_data(self) -> bytes:
        """The data after its end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Decompress to at most this many bytes."""


class Packing(NamedTuple):
    """A kind of compression: how a stream starts, and the error for data that is no stream."""

    stream: Callable[[], Stream]
    error: type[Exception]


def packing_of(file: IO[bytes]) -> Packing | None:
    """How an open file is compressed, if it is and can be read here; the position is restored."""
    first = file.read(max(map(len, _BY_MAGIC)))
    file.seek(0)
    return next((find() for magic, find in _BY_MAGIC.items() if first.startswith(magic)), None)


def unpacked(blocks: Iterable[bytes], size: int, packing: Packing) -> Generator[bytes, None, bool]:
    """Yield decompressed blocks of at most `size` bytes; returns whether the file is damaged."""
    stream = packing.stream()
    is_within, is_first = False, True
    for block in blocks:
        pending = block
        while pending or not stream.needs_input:
            try:
                text = stream.decompress(pending, size)
            except packing.error:
                return is_within or is_first
            is_within = bool(text) or is_within
            yield text
            pending = b""
            if stream.eof:
                pending = stream.unused_data
                stream = packing.stream()
                is_within = is_first = False  # what follows may be padding
    return False


def _xz() -> Packing | None:
    try:
        import lzma  # noqa: PLC0415  # some builds of Python lack it
    except ImportError:
        return None
    return Packing(partial(lzma.LZMADecompressor, memlimit=_XZ_MEMORY_BYTES), lzma.LZMAError)


def _zstd() -> Packing | None:
    for name in ZSTD_MODULES:
        try:
            zstd = import_module(name)
        except ImportError:
            continue
        return Packing(zstd.ZstdDecompressor, zstd.ZstdError)
    return None


_BY_MAGIC: Final[dict[bytes, Callable[[], Packing | None]]] = {
    b"\xfd7zXZ\x00": _xz,
    b"\x28\xb5\x2f\xfd": _zstd,
}


def is_gzip(file: IO[bytes]) -> bool:
    """Whether the file starts with gzip's magic bytes; the position is restored."""
    first = file.read(len(_GZIP_MAGIC))
    file.seek(0)
    return first == _GZIP_MAGIC


def gunzipped(blocks: Iterator[bytes], size: int) -> Generator[bytes, None, tuple[bool, bool]]:
    """Yield decompressed blocks of at most `size` bytes, from all members of a file.

    Returns whether decompression failed, and whether the file ends before its last member does.
    """
    member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    is_within, is_first = False, True
    for block in blocks:
        pending = block
        while pending:
            try:
                inflated = member.decompress(pending, size)
            except _CORRUPT:
                return is_within or is_first, False
            is_within = bool(inflated) or is_within
            yield inflated
            pending = member.unconsumed_tail
            if member.eof:
                pending = member.unused_data
                member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
                is_within = is_first = False  # what follows may be padding
    yield member.flush()
    return False, is_within or is_first  # also if only the checksum is missing
