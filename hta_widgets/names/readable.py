"""Say in the field's words what a kernel is: family, tile, type, library.

::

    cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8>(…)
    GEMM 256×128 bf16 nn · cutlass

A name that no rule knows has no such label. `distinct_labels` labels several names so that
different ones stay different, and shortens those without a label.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from hta_widgets.names.demangling import demangled
from hta_widgets.names.kernel_families import LABEL_RULES
from hta_widgets.names.shorten import distinct_names, remembered

_DIFFERENCES: Final = 2
"""Most parts that tell alike labels apart."""

_PARTS: Final = re.compile(r"[A-Za-z0-9]+")


@remembered
def readable_name(name: str) -> str:
    """Label of a kernel, or an empty text if no rule knows its name.

    Examples
    --------
    >>> readable_name("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    'all-reduce ring LL bf16 · nccl'
    >>> readable_name("ampere_sgemm_128x64_nn")
    'GEMM 128×64 fp32 nn · cublas'
    >>> readable_name("triton_poi_fused_add_mul_0")
    'fused add_mul · triton'
    >>> readable_name("my_kernel")
    ''
    """
    text = demangled(name).removeprefix("void ")
    return next((label for rule in LABEL_RULES if (label := rule(text))), "")


def distinct_labels(names: Sequence[str], width: int = 48) -> list[str]:
    """Label names so that different names stay different; those without a label are shortened.

    Where labels are alike, the parts of the names in which they differ follow.

    Examples
    --------
    >>> distinct_labels(["triton_poi_fused_add_0", "triton_poi_fused_add_1", "mine"])
    ['fused add · triton (0)', 'fused add · triton (1)', 'mine']
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        alike[readable_name(name)].append(name)
    unknown = alike.pop("", [])
    labels = {
        name: label
        for family, group in alike.items()
        for name, label in zip(group, _told_apart(family, group), strict=True)
    }
    times = Counter(labels.values())
    kept = {name: each for name, each in labels.items() if times[each] == 1 and len(each) <= width}
    rest = [*unknown, *(name for name in labels if name not in kept)]
    shown = kept | dict(zip(rest, distinct_names(rest, width), strict=True))
    if len(set(shown.values())) < len(shown):
        return distinct_names(names, width)
    return [shown[name] for name in names]


def _told_apart(label: str, names: Sequence[str]) -> list[str]:
    if len(names) == 1:
        return [label]
    parts = [list(dict.fromkeys(_PARTS.findall(name))) for name in names]
    common = set(parts[0]).intersection(*parts[1:])
    times = Counter(part for of_name in parts for part in of_name)
    own = [
        sorted((part for part in of_name if part not in common), key=times.__getitem__)
        for of_name in parts
    ]
    for count in range(1, _DIFFERENCES + 1):
        marks = [", ".join(each[:count]) for each in own]
        if len(set(marks)) == len(names):
            return [f"{label} ({mark})" if mark else label for mark in marks]
    return [label] * len(names)
