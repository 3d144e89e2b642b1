"""``hta.utils.utils``: functions for names of kernels and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hta_widgets.names.shorten import plain_name
from hta_widgets.trace.model.kernels import KernelType, type_by_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KernelType",
    "flatten_column_names",
    "get_kernel_type",
    "get_memory_kernel_type",
    "is_comm_kernel",
    "is_compute_kernel",
    "is_memory_kernel",
    "shorten_name",
]

_MEMSET, _MEMCPY = "Memset", "Memcpy"
_KIND_OF_COPY: Final = len("Memcpy DtoH")


def shorten_name(name: str) -> str:
    """Return a name without template arguments and signature."""
    return plain_name(name)


def flatten_column_names(df: pd.DataFrame) -> None:
    """Join the levels of multi-level column names with ``_``, in place."""
    if df.columns.nlevels > 1:
        df.columns = ["_".join(map(str, each)).rstrip("_") for each in df.columns]


def get_kernel_type(name: str) -> str:
    """``COMMUNICATION``, ``MEMORY`` or ``COMPUTATION``, based on the name alone.

    The tables also use what was recorded about each kernel: see the kernel breakdown.
    """
    return type_by_name(name).name


def is_comm_kernel(name: str) -> bool:
    """Whether `get_kernel_type` is ``COMMUNICATION``."""
    return type_by_name(name) is KernelType.COMMUNICATION


def is_memory_kernel(name: str) -> bool:
    """Whether `get_kernel_type` is ``MEMORY``."""
    return type_by_name(name) is KernelType.MEMORY


def is_compute_kernel(name: str) -> bool:
    """Whether `get_kernel_type` is ``COMPUTATION``."""
    return type_by_name(name) is KernelType.COMPUTATION


def get_memory_kernel_type(name: str) -> str:
    """``Memset``, ``Memcpy HtoD`` and so on; ``Memcpy Unknown`` for any other name."""
    if name.startswith(_MEMSET):
        return _MEMSET
    return name[:_KIND_OF_COPY] if name.startswith(_MEMCPY) else f"{_MEMCPY} Unknown"
