"""Large packages, each imported when something in it is first used.

Opening a trace, in this process or a worker, takes a fraction of the time and memory of importing
pandas and pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from hta_widgets.errors import PackageError

__all__ = ["LazyModule", "pa", "pacsv", "pc", "pd", "pq"]


class LazyModule(ModuleType):
    """Stand-in for a module that is imported when one of its attributes is first used.

    Type checkers see the import itself, as below.
    """

    def __getattr__(self, name: str) -> object:
        """Import the module and return its attribute.

        Raises `PackageError` if the module cannot be imported.
        """
        try:
            module = import_module(self.__name__)
        except ImportError as error:
            raise PackageError.from_import(self.__name__, error) from error
        value: object = getattr(module, name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
else:
    pd = LazyModule("pandas")
    pa = LazyModule("pyarrow")
    pc = LazyModule("pyarrow.compute")
    pacsv = LazyModule("pyarrow.csv")
    pq = LazyModule("pyarrow.parquet")
