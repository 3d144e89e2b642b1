"""Lazy imports of large packages.

Opening a trace, in this process or a worker, takes a fraction of the time and memory of importing
pandas and pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class LazyModule(ModuleType):
    """Stand-in for a module that is imported when one of its attributes is first used.

    Type checkers see the import itself::

        if TYPE_CHECKING:
            import pandas as pd
        else:
            pd = LazyModule("pandas")
    """

    def __getattr__(self, name: str) -> object:
        """Import the module and return its attribute."""
        value: object = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value
