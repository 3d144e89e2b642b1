"""The panels of all analyses, each a class in the module of this package named after it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from hta_widgets.panels.bands.tabs import order
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.panel_of_two import PanelOfTwo

_PACKAGE: Final = __name__.rpartition(".")[0]
_NO_PANELS: Final = frozenset({"bands", "base", "dashboard", "every"})


def _found() -> Iterator[type[Panel[Any]]]:
    for found in iter_modules(import_module(_PACKAGE).__path__):
        if found.name not in _NO_PANELS:
            for each in vars(import_module(f"{_PACKAGE}.{found.name}")).values():
                if isinstance(each, type) and issubclass(each, Panel) and each.name == found.name:
                    yield each


EVERY: Final = {panel.name: panel for panel in sorted(_found(), key=order)}
"""Panels by name, in their order on a dashboard, including those that compare two jobs."""

PANELS: Final = {name: panel for name, panel in EVERY.items() if not issubclass(panel, PanelOfTwo)}
"""The panels of one job."""
