"""Names of ``hta.common.trace_symbol_table``."""

from hta_widgets.hta_trace.symbol_table import TraceSymbolTable

__all__ = ["TraceSymbolTable"]
