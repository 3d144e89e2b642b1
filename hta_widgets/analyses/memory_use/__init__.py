"""Memory of each device over time, and what is alive at its peak."""

from hta_widgets.analyses.memory_use.analysis import MemoryUse, may_record_memory, memory_use
from hta_widgets.analyses.memory_use.recorded import CPU

__all__ = ["CPU", "MemoryUse", "may_record_memory", "memory_use"]
