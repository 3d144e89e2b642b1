"""Operations of communication kernels: their names, what is known of them, and their sizes."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

SEND, RECEIVE = "send", "recv"
SEND_RECEIVE: Final = "send_recv"
"""Of kernels whose partners are not recorded; their common ends tell them."""
POINT_TO_POINT: Final = frozenset({SEND, RECEIVE})

_WORDS = (
    ("crossdevicereduce", "all_reduce"),
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("sendrecv", ""),
    ("send", SEND),
    ("recv", RECEIVE),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
)
"""Words of names without punctuation, the first that occurs decides. A ``SendRecv`` kernel sends,
receives, or does both with many ranks: its name does not say which."""

OPERATIONS: Final = tuple(dict.fromkeys(operation for _, operation in _WORDS if operation))

MEETING: Final = frozenset(
    {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "p2p", SEND_RECEIVE}
)
"""Operations that no member can finish before all have begun, and that end together. The root of
a broadcast may be done before the others begin."""

_BYTES_BY_PREFIX = (
    (r"complexdouble|complex128", 16),
    (r"complexfloat|complex64|double|float64|u?int64|u?long|cdouble", 8),
    (r"complexhalf|complex32|bfloat16|half|float16|u?int16|u?short", 2),
    (r"float8|fp8|f8|char|byte|u?int8|bool|qu?int8", 1),
    (r"float|float32|u?int|u?int32|qint32", 4),
)
_ELEMENT_BYTES = tuple((re.compile(rf"(?:{names})"), size) for names, size in _BYTES_BY_PREFIX)
_NOT_A_LETTER = re.compile(r"[^a-z]")
_NAMESPACE = re.compile(r"^(?:c10::|torch\.|nccl)")
_FLOAT8 = re.compile(r"(?:float8|fp8|f8)_?e\d+m\d+\w*")


@cache
def operation_of(name: str) -> str:
    """Operation that a collective name, or the name of a kernel, stands for; empty if unknown.

    Examples
    --------
    >>> operation_of("_allgather_base"), operation_of("all_to_allv"), operation_of("wait")
    ('all_gather', 'all_to_all', '')
    >>> operation_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL")
    'reduce_scatter'
    """
    letters = _NOT_A_LETTER.sub("", name.lower())
    return next((operation for word, operation in _WORDS if word in letters), "")


@cache
def element_bytes(dtype: str) -> int:
    """Bytes of one element, by the names of PyTorch and NCCL; 0 for an unknown name.

    Examples
    --------
    >>> [element_bytes(name) for name in ("BFloat16", "Float", "int8", "Float8_e4m3fn", "?")]
    [2, 4, 1, 1, 0]
    """
    name = _NAMESPACE.sub("", dtype.strip().lower())
    if _FLOAT8.fullmatch(name):
        return 1
    return next((size for names, size in _ELEMENT_BYTES if names.fullmatch(name)), 0)


def bus_factor(operation: str, members: int) -> float:
    """Ratio of the bytes that cross the busiest link to the bytes of the buffer.

    Members of a ring send each part of the buffer on: all but one of them once, in an all-reduce
    twice (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).

    Examples
    --------
    >>> bus_factor("all_reduce", 8), bus_factor("all_gather", 8), bus_factor("p2p", 2)
    (1.75, 0.875, 1.0)
    """
    if operation == "all_reduce":
        return 2 * (members - 1) / members
    if operation in {"all_gather", "reduce_scatter", "all_to_all"}:
        return (members - 1) / members
    return 1.0
