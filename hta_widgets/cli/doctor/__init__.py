"""What ``hta-widgets doctor`` and ``hta_widgets.doctor()`` print, to be pasted into an issue."""

from __future__ import annotations

import platform
import sys

from hta_widgets.cli.doctor.cache import cache_line, cache_problems
from hta_widgets.cli.doctor.front_end import FrontEnd
from hta_widgets.cli.doctor.host import Place, this_place
from hta_widgets.cli.doctor.packages import installed_versions, package_problems
from hta_widgets.cli.doctor.wording import Problem, without_home
from hta_widgets.version import __version__


def doctor() -> None:
    """Print versions, what was found of the front end, and what to do about each problem.

    Call it in a notebook: the command ``hta-widgets doctor`` says the same of the Python that it
    belongs to, which need not be that of the notebook's kernel.
    """
    sys.stdout.write(report())


def report(place: Place | None = None) -> str:
    """Describe this installation; paths in the user's home begin with ``~``.

    Parameters
    ----------
    place : Place, optional
        Where this process runs; found out by default.
    """
    place = place or this_place()
    front_end = FrontEnd.of(place)
    sections = [
        _overview(place, front_end),
        _packages(),
        _problems([*package_problems(), *front_end.problems(), *cache_problems()]),
    ]
    return without_home("\n".join(sections))


def _overview(place: Place, front_end: FrontEnd) -> str:
    rows = {
        "hta_widgets": __version__,
        "notebook": place.description(),
        "front end": front_end.description(),
        "cache": cache_line(),
        "Python": f"{platform.python_version()}, {sys.executable}",
        "platform": platform.platform(),
    }
    return _table(rows)


def _packages() -> str:
    versions = installed_versions()
    return _table({name: version or "not installed" for name, version in versions.items()})


def _problems(problems: list[Problem]) -> str:
    if not problems:
        return "No problem was found.\n"
    return "".join(f"Problem: {each.what}\n   Cure: {each.cure}\n" for each in problems)


def _table(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows.items())
