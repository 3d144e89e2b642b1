"""Kinds of files that are no traces but hold them, by their first bytes."""

from __future__ import annotations

from typing import Final

_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
_TAR, _TAR_POSITION = b"ustar", 257


def archive_kind(content: bytes) -> str:
    """Kind of archive or compressed file that begins so; empty for anything else."""
    if content[_TAR_POSITION:].startswith(_TAR):
        return "tar"
    return next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), "")
