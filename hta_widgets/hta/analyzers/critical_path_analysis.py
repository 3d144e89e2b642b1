"""Names of ``hta.analyzers.critical_path_analysis``."""

from hta_widgets.hta_tables.critical_path_stretches import BoundType, CPEdgeType
from hta_widgets.hta_trace.critical_path import CPEdge, CPGraph, CPNode, restore_cpgraph
from hta_widgets.hta_trace.critical_path_analysis import CriticalPathAnalysis

__all__ = [
    "BoundType",
    "CPEdge",
    "CPEdgeType",
    "CPGraph",
    "CPNode",
    "CriticalPathAnalysis",
    "restore_cpgraph",
]
