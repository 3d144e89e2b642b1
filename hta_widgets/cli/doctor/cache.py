"""Whether the cache can be used."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hta_widgets.cli.doctor.wording import Problem
from hta_widgets.quantities import data_size
from hta_widgets.trace.cache.files import OFF, VARIABLE, cache_folder


def cache_line() -> str:
    """Describe the cache in a line: its folder, and the space that is left."""
    folder = cache_folder()
    if folder is None:
        return f"off ({VARIABLE}={OFF})"
    free = data_size(shutil.disk_usage(_existing(folder)).free)
    return f"{folder}, {'writable' if _is_writable(folder) else 'not writable'}, {free} free"


def cache_problems() -> list[Problem]:
    """Say what to do if the cache cannot be written to."""
    folder = cache_folder()
    if folder is None or _is_writable(folder):
        return []
    what = f"traces are not cached, because {folder} cannot be written to"
    return [Problem(what, f"set {VARIABLE} to a folder of your own, or to {OFF}")]


def _is_writable(folder: Path) -> bool:
    place = _existing(folder)
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest above it that is there.

    The outermost if not even that is, as on a drive that Windows has no more.
    """
    above = (folder.absolute(), *folder.absolute().parents)
    there = (each for each in above if os.path.exists(each))  # noqa: PTH110  # never raises
    return next(there, above[-1])
