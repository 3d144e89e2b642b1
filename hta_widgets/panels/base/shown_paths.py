"""Paths as panels show them: the readers of a saved notebook need not see the author's folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

_BEFORE: Final = r"(?<![\w.-])"
_AFTER: Final = r"(?:([/\\])|(?![\w-]|\.\w))"
_HOME: Final = "~"


def distinct_endings(paths: Sequence[str]) -> list[str]:
    """Endings that tell paths apart: the file name, with folders only where names are equal.

    Examples
    --------
    >>> distinct_endings(["/runs/7/rank-0.json", "/runs/7/rank-1.json"])
    ['rank-0.json', 'rank-1.json']
    >>> distinct_endings(["/runs/7/0/trace.json", "/runs/7/1/trace.json"])
    ['0/trace.json', '1/trace.json']
    """
    parts = [Path(path).parts for path in paths]
    longest = max(map(len, parts), default=1)
    for count in range(1, longest + 1):
        endings = [each[-count:] for each in parts]
        if len(set(endings)) == len(set(parts)):
            break
    return ["/".join(ending) for ending in endings] if parts else []


@lru_cache(maxsize=64)
def without_folders(folders: frozenset[Path]) -> Callable[[str], str]:
    """Make a function that shortens paths in a text: those in some folders, or the home folder.

    A path inside a folder becomes relative to it; a folder itself becomes its name.

    Examples
    --------
    >>> shorten = without_folders(frozenset([Path("/data/run7")]))
    >>> shorten("/data/run7/rank-0.json has changed; /data/run7 is read-only")
    'rank-0.json has changed; run7 is read-only'
    """
    known = {str(spelt): spelt.name for each in folders for spelt in _spellings(each)}
    for home in _home():
        known |= {str(spelt): _HOME for spelt in _spellings(home)}
    if not known:
        return lambda text: text
    longest_first = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    pattern = re.compile(f"{_BEFORE}({longest_first}){_AFTER}")

    def shortened(found: re.Match[str]) -> str:
        name, separator = known[found[1]], found[2] or ""
        return "" if separator and name != _HOME else f"{name}{separator}"

    return lambda text: pattern.sub(shortened, text)


def _spellings(folder: Path) -> set[Path]:
    return {each for each in (folder.absolute(), folder.resolve()) if each.name}


def _home() -> list[Path]:
    try:
        return [Path.home()]
    except RuntimeError:  # a user without one
        return []
