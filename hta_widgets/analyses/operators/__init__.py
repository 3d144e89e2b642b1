"""What each operator takes, on the CPU and on the GPU."""

from hta_widgets.analyses.operators.analysis import ROWS_BY, OperatorTable, operators
from hta_widgets.analyses.operators.operator_calls import RowsBy

__all__ = ["ROWS_BY", "OperatorTable", "RowsBy", "operators"]
