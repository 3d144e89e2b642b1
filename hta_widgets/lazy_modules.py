"""Packages that are imported when something of them is first used.

Opening a trace, here or in a worker, takes a fraction of the time and memory of importing pandas
and pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class LazyModule(ModuleType):
    """Stands for a module that may not have been imported yet.

    Type checkers are shown the import itself::

        if TYPE_CHECKING:
            import pandas as pd
        else:
            pd = LazyModule("pandas")
    """

    def __getattr__(self, name: str) -> object:
        """Import the module, and return what it has of this name."""
        value: object = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value
