"""The built front end: the paths of its files, and whether they are up to date.

Only the standard library is imported here: the build hook loads this module before anything else
is installed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

STATIC = Path(__file__).parents[1] / "static"
SOURCES = Path(__file__).parents[3] / "js"
BUILT = ("loader.js", "panel.js.gz", "plotly.js.gz", "plotly.LICENSE.txt", "report.js")
BUILD_COMMAND = "npm ci && npm run build"
STAMP = "// source "


def source_hash() -> str:
    """Checksum of all sources of the front end; js/build.mjs writes the same one."""
    files = (path for path in (SOURCES / "src").rglob("*") if path.is_file())
    names = [path.relative_to(SOURCES).as_posix() for path in files]
    total = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package-lock.json"]):
        total.update(name.encode() + b"\0" + (SOURCES / name).read_bytes() + b"\0")
    return total.hexdigest()[:16]  # every panel sends it with the loader


def built_hash() -> str | None:
    """Checksum of the sources that the built files were made from; None if a file is missing."""
    if not all((STATIC / name).is_file() for name in BUILT):
        return None
    with (STATIC / "loader.js").open(encoding="utf-8") as loader:
        return loader.readline().removeprefix(STAMP).strip()


def is_up_to_date() -> bool:
    """Whether the built files exist and match the sources next to the package."""
    built = built_hash()
    return built is not None and (not SOURCES.is_dir() or built == source_hash())


def static_file(name: str) -> Path:
    """Path of a built file; if the front end was never built, an error has the command."""
    path = STATIC / name
    if not path.is_file():
        msg = f"{path} is missing: the front end is not built; run `{BUILD_COMMAND}` in {SOURCES}"
        raise FileNotFoundError(msg)
    return path
