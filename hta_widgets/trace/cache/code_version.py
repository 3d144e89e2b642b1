"""Version of the code that computed a cached file, so that other code does not read it."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from hta_widgets.version import __version__

PACKAGE: Final = Path(__file__).parents[2]

LOADING: Final = ("trace", "names", "grouping.py", "intervals.py", "quantities.py")
"""Modules and packages whose code decides the content of a loaded trace."""

DERIVING: Final = (*LOADING, "analyses", "defaults.py")
"""Modules and packages whose code decides the columns derived from it."""

EVERYTHING: Final = ("",)
"""The whole package, whose code decides what is said about a job."""


@lru_cache
def code_version(parts: tuple[str, ...]) -> str:
    """Hash of the package version and of the source code of some of its modules and packages.

    A version number that has to be incremented by hand will be forgotten one day, and the cache
    would then return results of older code. Hashing takes a few milliseconds, once per process.
    """
    total = sha256(__version__.encode())
    for part in parts:
        path = PACKAGE / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            total.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0")
            total.update(file.read_bytes() + b"\0")
    return total.hexdigest()[:16]
