"""Names of ``hta.analyzers.cupti_counter_analysis``."""

from typing import Final

__all__ = ["CUDA_SASS_INSTRUCTION_COUNTER_FLOPS"]

_OPERATIONS: Final = {"add": 1, "mul": 1, "fma": 2}
_PRECISIONS: Final = ("f", "h", "d")

CUDA_SASS_INSTRUCTION_COUNTER_FLOPS: Final = {
    f"smsp__sass_thread_inst_executed_op_{precision}{operation}_pred_on.sum": flop
    for precision in _PRECISIONS
    for operation, flop in _OPERATIONS.items()
}
"""FLOP per executed instruction, by the performance counter that counts it per thread."""
