"""Which code computed what is kept on disk, so that no other code reads it."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from hta_widgets.version import __version__

PACKAGE: Final = Path(__file__).parents[2]

LOADING: Final = ("trace", "names", "grouping.py", "intervals.py", "quantities.py")
"""Where the code lies that decides what a loaded trace holds."""

DERIVING: Final = (*LOADING, "analyses")
"""Where the code lies that decides what is derived from it."""


@lru_cache
def code_version(parts: tuple[str, ...]) -> str:
    """Hash of the version of the package and of the source code of some of its parts.

    A number that somebody has to count up is forgotten one day, and from then on a big trace shows
    what the code of before made of it. This takes a few milliseconds, once per process.

    Parameters
    ----------
    parts : tuple of str
        Modules and packages, as paths inside the package.
    """
    total = sha256(__version__.encode())
    for part in parts:
        place = PACKAGE / part
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            total.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0")
            total.update(file.read_bytes() + b"\0")
    return total.hexdigest()[:16]
