"""The built front end: where its files are, and whether they are there and up to date.

Only the standard library is imported here: the build hook reads this module before anything else
is installed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

STATIC = Path(__file__).parents[1] / "static"
SOURCES = Path(__file__).parents[3] / "js"
BUILT = ("loader.js", "panel.js.gz", "plotly.js.gz", "plotly.LICENSE.txt")
BUILD_COMMAND = "npm ci && npm run build"
STAMP = "// source "


def source_hash() -> str:
    """Sum of everything that the front end is built from; js/build.mjs writes the same sum."""
    names = [f"src/{path.name}" for path in (SOURCES / "src").iterdir()]
    total = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package-lock.json"]):
        total.update(name.encode() + b"\0" + (SOURCES / name).read_bytes() + b"\0")
    return total.hexdigest()


def built_hash() -> str | None:
    """Sum of the sources that the built files were made from, None where one is missing."""
    if not all((STATIC / name).is_file() for name in BUILT):
        return None
    with (STATIC / "loader.js").open(encoding="utf-8") as loader:
        return loader.readline().removeprefix(STAMP).strip()


def is_up_to_date() -> bool:
    """Tell whether the built files are there and made from the sources beside the package."""
    built = built_hash()
    return built is not None and (not SOURCES.is_dir() or built == source_hash())


def static_file(name: str) -> Path:
    """Path of a built file.

    Raises
    ------
    FileNotFoundError
        If the front end was never built, saying how to build it.
    """
    path = STATIC / name
    if not path.is_file():
        msg = f"{path} is missing: the front end is not built; run `{BUILD_COMMAND}` in {SOURCES}"
        raise FileNotFoundError(msg)
    return path
