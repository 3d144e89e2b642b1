"""The kind of event that each Kineto category means. Data, not code."""

from __future__ import annotations

from hta_widgets.trace.model.events import Kind

CATEGORY_KINDS = {
    "kernel": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "cuda_sync": Kind.SYNC,
    "gpu_user_annotation": Kind.GPU_ANNOTATION,
    "cpu_op": Kind.CPU_OP,
    "operator": Kind.CPU_OP,
    "runtime": Kind.RUNTIME,
    "driver": Kind.DRIVER,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "cuda_profiler_range": Kind.PROFILER_RANGE,
    "overhead": Kind.OVERHEAD,
    "os_call": Kind.OS_CALL,
}

CATEGORIES: dict[Kind, str] = {kind: kind.name.lower() for kind in Kind} | {
    Kind.MEMCPY: "gpu_memcpy",
    Kind.MEMSET: "gpu_memset",
    Kind.SYNC: "cuda_sync",
    Kind.GPU_ANNOTATION: "gpu_user_annotation",
    Kind.RUNTIME: "cuda_runtime",
    Kind.DRIVER: "cuda_driver",
    Kind.ANNOTATION: "user_annotation",
    Kind.PYTHON: "python_function",
    Kind.PROFILER_RANGE: "cuda_profiler_range",
    Kind.INSTANT: "cpu_instant_event",
}
"""The PyTorch profiler's current category for each kind. A kind without one, or with other names in
older traces and on other devices, has its own name."""

SYNC_NAMES = {"mtia_ccp_events": frozenset({"event_wait", "event_record"})}
"""Names that are not work although their category is: MTIA lists waits for events of other streams
among its kernels, while CUDA's have a category of their own (``cuda_sync``)."""

SUFFIX_KINDS = {"_runtime": Kind.RUNTIME, "_driver": Kind.DRIVER}
"""Such as ``cuda_runtime``, ``hip_runtime``, ``xpu_driver`` and ``privateuse1_driver``."""

PHASE_KINDS = {"C": Kind.COUNTER, "i": Kind.INSTANT, "I": Kind.INSTANT}

PROFILER_OWN = "trace"
"""Category of the profiler's own event, which spans the whole recording."""


def kind_of(phase: str | None, category: str | None) -> Kind | None:
    """Kind of an event; None for entries that are not events in time (metadata, flow arrows)."""
    if phase == "X":
        return _kind_of_complete((category or "").lower())
    if phase == "C" or category is not None:
        return PHASE_KINDS.get(phase or "")
    return None


def _kind_of_complete(category: str) -> Kind | None:
    if category == PROFILER_OWN:
        return None
    known = CATEGORY_KINDS.get(category)
    if known is not None:
        return known
    by_suffix = (kind for suffix, kind in SUFFIX_KINDS.items() if category.endswith(suffix))
    return next(by_suffix, Kind.OTHER)
