"""Names of ``hta.common.trace_filter``."""

from hta_widgets.hta_trace.filters import (
    CompositeFilter,
    CPUOperatorFilter,
    Filter,
    FirstIterationFilter,
    GPUKernelFilter,
    IterationFilter,
    IterationIndexFilter,
    MemCopyEventFilter,
    NameFilter,
    NameIdColumnFilter,
    NameStringColumnFilter,
    QueryFilter,
    RankFilter,
    TimeRangeFilter,
    ZeroDurationFilter,
)

__all__ = [
    "CPUOperatorFilter",
    "CompositeFilter",
    "Filter",
    "FirstIterationFilter",
    "GPUKernelFilter",
    "IterationFilter",
    "IterationIndexFilter",
    "MemCopyEventFilter",
    "NameFilter",
    "NameIdColumnFilter",
    "NameStringColumnFilter",
    "QueryFilter",
    "RankFilter",
    "TimeRangeFilter",
    "ZeroDurationFilter",
]
