"""Atomic writes: files and folders that get their name only once they are complete.

A killed process leaves what it was writing behind, under a name that nobody looks for. So every
writer holds a lock on what it writes, which ends with its process. Before it writes, it removes
what no process of this machine has locked in that folder.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows has other locks, and a file with such a lock cannot be renamed
    fcntl = None  # type: ignore[assignment]

PARTIAL_NAME: Final = re.compile(r"\.(?:hta_widgets-[0-9a-f]{8}-)?[a-z0-9_]{8}\.part")
"""Names of files and folders that are being written, or that a killed process left behind."""

_MACHINE: Final = sha256(platform.node().encode()).hexdigest()[:8]
"""On some file systems, other machines do not see locks."""

_OURS: Final = re.compile(rf"\.hta_widgets-{_MACHINE}-[0-9a-f]{{8}}\.part")
_ANYONE, _OWNER = 0o666, 0o600


@contextmanager
def atomic_write(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces the target at the end, in the same folder.

    After an error, the target is unchanged and the new file is removed. Only the user can read a
    `private` file, regardless of the umask.
    """
    mode = _OWNER if private else _ANYONE
    with _locked(target, lambda partial: partial.touch(mode, exist_ok=False)) as partial:
        try:
            yield partial
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder to write to, which becomes the target, a new folder, at the end."""
    with _locked(target, lambda partial: partial.mkdir(parents=True)) as partial:
        try:
            yield partial
            partial.replace(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _locked(target: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Make a file or folder next to the target that no other process removes as left behind."""
    _remove_left_behind(target.parent)
    partial, lock = _made(target, make)
    try:
        yield partial
    finally:
        _unlock(lock)


def _made(target: Path, make: Callable[[Path], None]) -> tuple[Path, int | None]:
    while True:
        partial = target.with_name(f".hta_widgets-{_MACHINE}-{secrets.token_hex(4)}.part")
        make(partial)
        try:
            lock = _lock(partial)
        except BlockingIOError:  # another process is about to remove it
            continue
        if partial.exists():
            return partial, lock
        _unlock(lock)


def _lock(path: Path) -> int | None:
    """Lock a file or folder until `_unlock`, or return None on a system without locks.

    Raises `BlockingIOError` if it is already locked.
    """
    try:
        lock = None if fcntl is None else os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _unlock(lock)
        raise
    except OSError:
        _unlock(lock)
        return None
    return lock


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _remove_left_behind(folder: Path) -> None:
    """Remove what killed processes of this machine left in a folder."""
    try:
        with os.scandir(folder) as entries:
            found = [Path(each) for each in entries if _OURS.fullmatch(each.name)]
    except OSError:
        return
    for path in found:
        with suppress(OSError):
            lock = _lock(path)
            if lock is not None and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif lock is not None:
                path.unlink(missing_ok=True)
            _unlock(lock)
