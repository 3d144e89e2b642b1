"""Whether a kernel runs on tensor cores, judging by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from hta_widgets.arrays import Int8Array, Int32Array
from hta_widgets.grouping import distinct
from hta_widgets.names.shorten import remembered

ATTENTION: Final = re.compile(r"flash|fmha|attn_fwd|mem_eff|sdpa|attention", re.IGNORECASE)
PRODUCT: Final = re.compile(
    r"gemm|nvjet|xmma|wgmma|gmma|scudnn|[hi]mma|cutlass|conv(?!ert)|[dw]grad|fprop|winograd|Cijk_",
    re.IGNORECASE,
)
TENSOR_CORES: Final = re.compile(
    r"tensorop|s16816|s1688|s884|h884|h1688|hmma|imma|wgmma|gmma(?!s)|nvjet|bf16bf16|f16f16|tf32"
    r"|e4m3|e5m2|MFMA|mfma|_MI(?:16|32)x"
)
FP32: Final = re.compile(
    r"sgemm|scudnn|_ffma_|simt_(?![dzh])|f32f32_f32f32_f32(?!.*tf32)|dgrad_(?:alg1_)?engine<float"
    r"|wgrad_alg[01]_engine<float|implicit_convolve_sgemm"
    r"|[wW]inograd\w*<(?:[^<>,]*\d, )?float, float>"  # transforms before and after products
)
ELEMENTWISE: Final = re.compile(r"elementwise_kernel")


class TensorCores(IntEnum):
    """Whether a kernel runs on tensor cores."""

    UNKNOWN = 0
    YES = 1
    NO = 2


@remembered  # ranks of a job share most names
def tensor_cores(name: str) -> TensorCores:
    """Whether a kernel of this name runs on tensor cores.

    Examples
    --------
    >>> tensor_cores("ampere_sgemm_32x32_sliced1x4_tn").name
    'NO'
    >>> tensor_cores("cutlass_80_tensorop_s1688tf32gemm_128x128_16x4_nt_align4").name
    'YES'
    >>> tensor_cores("void cudnn::cnn::wgrad_alg1_engine<float, 128, 5, 5, 3, 3, 3>").name
    'NO'
    """
    if ELEMENTWISE.search(name):
        return TensorCores.UNKNOWN
    if TENSOR_CORES.search(name):
        return TensorCores.YES
    return TensorCores.NO if FP32.search(name) else TensorCores.UNKNOWN


def tensor_cores_of(codes: Int32Array, names: Sequence[str]) -> Int8Array:
    """`TensorCores` of each kernel, by the code of its name; each name is checked once."""
    used = distinct(codes)
    states = np.zeros(int(used.max(initial=0)) + 1, dtype=np.int8)
    states[used] = [tensor_cores(names[code]) for code in used.tolist()]
    return states[codes]


@remembered
def is_product(name: str) -> bool:
    """Whether a kernel multiplies matrices or convolves."""
    known = PRODUCT.search(name) or TENSOR_CORES.search(name)
    return bool(known) and not ATTENTION.search(name) and not ELEMENTWISE.search(name)
