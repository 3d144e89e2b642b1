"""Versions of the packages that panels and notebooks depend on."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final, NamedTuple

from hta_widgets.errors import PackageError

PACKAGES: Final = (
    "anywidget",
    "ipywidgets",
    "traitlets",
    "plotly",
    "pandas",
    "numpy",
    "pyarrow",
    "ipykernel",
    "jupyterlab",
    "notebook",
    "nbclassic",
    "voila",
    "marimo",
)

RESTART: Final = "restart the kernel"

_FLOOR = re.compile(r"([\w-]+)>=([\d.]+)")


class Problem(NamedTuple):
    """Something that does not work, and how to fix it."""

    what: str
    cure: str


def installed_versions() -> dict[str, str | None]:
    """Installed version of each package; None if it is not installed."""
    return {name: installed_version(name) for name in PACKAGES}


def package_problems() -> list[Problem]:
    """Find packages that are too old or replaced while in use, and panels that do not load."""
    return [*_too_old(), *_replaced_while_in_use(), *_not_importable()]


def installed_version(name: str) -> str | None:
    """Version of an installed package, imported or not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _too_old() -> list[Problem]:
    return [
        Problem(
            f"{name} {f'is {there}' if there else 'is missing'}; at least {least} is needed",
            f"pip install '{name}>={least}', then {RESTART}",
        )
        for name, least in _floors().items()
        if not (there := installed_version(name)) or release(there) < release(least)
    ]


def _floors() -> dict[str, str]:
    """Lowest version of each package that every Python and platform needs."""
    found = map(_FLOOR.fullmatch, requires("hta_widgets") or [])
    return {each[1]: each[2] for each in found if each}


def _replaced_while_in_use() -> list[Problem]:
    problems = []
    for name in PACKAGES:
        loaded = getattr(sys.modules.get(name), "__version__", None)
        there = installed_version(name)
        if loaded and there and release(loaded) != release(there):
            what = f"{name} {loaded} is in use, but {there} is now installed"
            problems.append(Problem(what, RESTART))
    return problems


def _not_importable() -> list[Problem]:
    problems = []
    try:
        import_module("pyarrow")
    except ImportError as error:
        what, _, mend = str(PackageError.from_import("pyarrow", error)).rpartition("; ")
        problems.append(Problem(what, f"{mend}, then {RESTART}"))
    try:
        import_module("hta_widgets.panels")
    except Exception as error:  # noqa: BLE001  # whatever is broken is what the user asks about
        what = f"panels cannot be imported ({type(error).__name__}: {error})"
        problems.append(Problem(what, f"pip install --force-reinstall hta_widgets, then {RESTART}"))
    return problems


def release(text: str) -> tuple[int, ...]:
    """Numbers of a version, without a pre-release suffix.

    Examples
    --------
    >>> release("0.11.0rc1") >= release("0.11")
    True
    """
    numbers = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
