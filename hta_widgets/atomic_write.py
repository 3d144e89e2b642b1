"""Atomic writes: files and folders that get their name only once they are complete."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PARTIAL_NAME: Final = re.compile(r"\.[a-z0-9_]{8}\.part")
"""Names of files and folders that are being written, or that a killed process left behind."""

_ANYONE, _OWNER = 0o666, 0o600


@contextmanager
def atomic_write(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces the target at the end.

    After an error, the target is unchanged and the new file is removed.

    Parameters
    ----------
    target : Path
        In an existing folder.
    private : bool
        Make the file readable only by the user, regardless of the umask.
    """
    partial = _beside(target)
    partial.touch(_OWNER if private else _ANYONE, exist_ok=False)
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder to write to, which becomes the target, a new folder, at the end."""
    partial = _beside(target)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{secrets.token_hex(4)}.part")
