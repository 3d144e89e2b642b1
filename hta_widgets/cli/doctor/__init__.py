"""What ``hta-widgets doctor`` and ``hta_widgets.doctor()`` print, to be pasted into an issue."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path

from hta_widgets.cli.doctor.front_end import FrontEnd
from hta_widgets.cli.doctor.host import Place, this_place
from hta_widgets.cli.doctor.packages import Problem, installed_versions, package_problems
from hta_widgets.quantities import data_size
from hta_widgets.trace.cache.files import OFF, VARIABLE, cache_folder
from hta_widgets.version import __version__


def doctor() -> None:
    """Print versions, which parts of the front end were found, and how to fix each problem.

    Call it in a notebook: the command ``hta-widgets doctor`` checks the Python that it is
    installed in, which may not be the Python of the notebook's kernel.
    """
    sys.stdout.write(report())


def report(place: Place | None = None) -> str:
    """Describe this installation at a place, by default where this process runs.

    Paths in the user's home start with ``~``.
    """
    place = place or this_place()
    front_end = FrontEnd.of(place)
    sections = [
        _problems([*package_problems(), *front_end.problems(), *cache_problems()]),
        _table(
            {
                "hta_widgets": __version__,
                "notebook": place.description(),
                "front end": front_end.description(),
                "cache": cache_line(),
                "Python": f"{platform.python_version()}, {sys.executable}",
                "platform": platform.platform(),
            }
        ),
        _table({name: each or "not installed" for name, each in installed_versions().items()}),
    ]
    return without_home("\n".join(sections))


def _problems(problems: list[Problem]) -> str:
    if not problems:
        return "No problem was found.\n"
    return "".join(f"Problem: {each.what}\n    Fix: {each.cure}\n" for each in problems)


def _table(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows.items())


def cache_line() -> str:
    """Describe the cache in one line: its folder, and the free space."""
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
    """Return the folder, or the nearest existing one above it.

    If none exists, as on a drive that Windows no longer has, it is the outermost one.
    """
    above = (folder.absolute(), *folder.absolute().parents)
    there = (each for each in above if os.path.exists(each))  # noqa: PTH110  # never raises
    return next(there, above[-1])


def without_home(text: str) -> str:
    """Shorten the user's home in each path to ``~``, and mask control characters."""
    for home in _homes():
        text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _homes() -> list[str]:
    """The user's home as given and resolved, the longer one first, but never a root folder."""
    try:
        home = Path.home()
    except RuntimeError:
        return []
    named = {each for each in (home, home.resolve()) if each != each.parent}
    return sorted(map(str, named), key=len, reverse=True)
