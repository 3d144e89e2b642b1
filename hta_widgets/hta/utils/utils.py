"""Names of ``hta.utils.utils``."""

from hta_widgets.hta_trace.names import (
    flatten_column_names,
    get_kernel_type,
    get_memory_kernel_type,
    is_comm_kernel,
    is_compute_kernel,
    is_memory_kernel,
    shorten_name,
)
from hta_widgets.trace.model.kernels import KernelType

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
