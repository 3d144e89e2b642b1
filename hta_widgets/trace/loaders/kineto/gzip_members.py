"""The members of a gzip file, decompressed a block at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import IO

try:
    from isal import isal_zlib as zlib
except ImportError:  # isal has no wheels for some platforms; the standard library is only slower
    import zlib  # type: ignore[no-redef]

_CORRUPT: type[Exception] = zlib.error  # type: ignore[assignment]  # isal says instance
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31


def is_gzip(file: IO[bytes]) -> bool:
    """Whether the file starts with gzip's magic bytes; the position is restored."""
    first = file.read(len(_GZIP_MAGIC))
    file.seek(0)
    return first == _GZIP_MAGIC


def gunzipped(blocks: Iterator[bytes], size: int) -> Generator[bytes, None, tuple[bool, bool]]:
    """Yield decompressed blocks of at most `size` bytes, of all members of a file.

    Returns
    -------
    tuple of bool
        Whether decompression failed, and whether the file ends before its last member does.
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
    return False, is_within or is_first  # also where only the checksum is missing
