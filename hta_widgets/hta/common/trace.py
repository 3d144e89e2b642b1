"""Names of ``hta.common.trace``."""

from hta_widgets.hta_trace.symbol_table import TraceSymbolTable
from hta_widgets.hta_trace.trace import Trace

__all__ = ["Trace", "TraceSymbolTable"]
