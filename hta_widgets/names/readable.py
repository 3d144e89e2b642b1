"""Describe a kernel in the field's terms: family, tile, type, library.

::

    cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8>(…)
    GEMM 256×128 bf16 nn · cutlass

Each rule knows how one library spells its demangled names, and turns a name into a label, or into
an empty text if it does not know it. `distinct_labels` labels several names so that different ones
stay different, and shortens names without a label.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, groupby, islice
from typing import Final

from hta_widgets.names.demangling import demangled
from hta_widgets.names.shorten import ELLIPSIS, distinct_names, kernel_word, remembered, short_name

_DOT: Final = " · "
_COLLECTIVES: Final = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "SendRecv": "send/receive",
    "AlltoAll": "all-to-all",
    "AllToAll": "all-to-all",
}
_ALGORITHMS: Final = ("RING", "TREE", "NVLS", "NVLSTREE", "COLLNET", "PAT")
_PROTOCOLS: Final = ("LL128", "LL", "SIMPLE")
_TYPES: Final = {
    **dict.fromkeys(("bf16", "bfloat16", "BFloat16", "bfloat16_t", "__nv_bfloat16"), "bf16"),
    **dict.fromkeys(("f16", "fp16", "half", "Half", "half_t", "__half", "hip_half"), "fp16"),
    **dict.fromkeys(("f32", "fp32", "float"), "fp32"),
    **dict.fromkeys(("f64", "fp64", "double"), "fp64"),
    **dict.fromkeys(("f8e4m3", "Float8_e4m3fn", "fp8e4m3", "e4m3"), "fp8"),
    **{name: name for name in ("tf32", "int8", "uint8", "int32", "int64", "bool")},
    "__hip_bfloat16": "bf16",
    "s8": "int8",
    "long": "int64",
    "int": "int32",
    "int8_t": "int8",
    "tf32f32": "tf32",
    "bf16bf16": "bf16",
    "f16f16": "fp16",
    "f32f32": "fp32",
}
_TYPE: Final = re.compile(
    r"\b(?:c10::|cutlass::)?(BFloat16|Half|bfloat16_t|half_t|__nv_bfloat16|"
    r"__hip_bfloat16|__half|Float8_e4m3fn|float|double|long|int|bool)\b"
)
_BLAS_LETTERS: Final = {"s": "fp32", "h": "fp16", "d": "fp64", "c": "complex64", "gc": "complex64"}
_NVJET_TYPES: Final = {"t": "bf16", "h": "fp16", "q": "fp8"}
_TENSILE_TYPES: Final = {"B": "bf16", "H": "fp16", "S": "fp32", "D": "fp64"}
_TENSILE_LAYOUTS: Final = {
    "Ailk_Bljk": "nn",
    "Ailk_Bjlk": "nt",
    "Alik_Bljk": "tn",
    "Alik_Bjlk": "tt",
}
_TF32_SHAPE: Final = "1688"
_CONVOLUTIONS: Final = {
    "fprop": "fwd",
    "fwd": "fwd",
    "dgrad": "dgrad",
    "bwd": "dgrad",
    "wgrad": "wgrad",
    "wrw": "wgrad",
}
_FUNCTORS: Final = (
    re.compile(r"\b(\w+?)_kernel_cuda\b"),
    re.compile(r"\bCUDAFunctor(?:OnSelf|OnOther)?_(\w+?)<"),
    re.compile(r"\bbinary_internal::(\w+?)Functor<"),
    re.compile(r"\b(?!Binary|AUnary|BUnary|Unary|Opaque)([A-Z]\w*?)Functor<"),
    re.compile(r"\b(\w+?)(?:CUDA)?KernelImpl\b"),
    re.compile(r"\b(\w+?)_cuda_out\b"),
    re.compile(r"\blaunch_(\w+?)\("),
    re.compile(r"\b(?!gpu_)(\w+?)_(?:cuda_)?kernel(?:_impl)?\b(?=[(<])"),
)
_REDUCTIONS: Final = (
    re.compile(r"\b(\w+?)_functor<"),
    re.compile(r"::(?!Reduce)(\w+?)Ops?<"),
    re.compile(r"\b(\w+?)Functor<"),
)
_CAPITALS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _label(family: str, *words: str, library: str) -> str:
    return " ".join(word for word in (family, *words) if word) + f"{_DOT}{library}"


def _size(text: str) -> str:
    return text.replace("x", "×")


def _collective(text: str) -> str:
    found = re.match(r"(nccl|rccl|msccl)(?:Dev)?Kernel_(\w+)", text)
    if not found:
        return ""
    words = found[2].split("_")
    name = next((_COLLECTIVES[word] for word in words if word in _COLLECTIVES), "")
    if not name:
        return ""
    algorithm = next((word.lower() for word in words if word in _ALGORITHMS), "")
    protocol = next((word for word in _PROTOCOLS if word in words), "")
    operation = next((word.lower() for word in words if word in ("Max", "Min", "Prod")), "")
    reduces = "reduce" in name
    kind = next((_TYPES[word] for word in words if word in _TYPES), "") if reduces else ""
    protocol = protocol if protocol != "SIMPLE" else "simple"
    return _label(name, operation, algorithm, protocol, kind, library=found[1])


def _cutlass(text: str) -> str:
    found = re.search(
        r"cutlass_\d+_\w+?_(?:(bf16|f16|tf32)_)?([a-z])(\d*)gemm_(?:(\w+?)_)??(\d+x\d+)_\d+x\d+_"
        r"([nt]{2})",
        text,
    )
    if not found:
        return ""
    kind = _TYPES.get(found[4] or "", "") or _math_type(*found.groups()[:3])
    return _label("GEMM", _size(found[5]), kind, found[6], library="cutlass")


def _math_type(named: str | None, letter: str, shape: str) -> str:
    """Type of the inputs; a tensor core's shape (1688) only tells TF32."""
    if named:
        return _TYPES[named]
    if letter == "s" and shape:
        return "tf32" if shape == _TF32_SHAPE else ""
    return _BLAS_LETTERS.get(letter, "")


def _blas(text: str) -> str:
    found = re.match(
        r"(?:maxwell|volta|turing|ampere|hopper)_(?:(bf16|fp16|tf32)_)?(gc|[a-z])(\d*)gemm_"
        r"(?:(?:bf16|fp16|fp32|tf32)_)?(\d+x\d+)\w*?_([nt]{2})$",
        text,
    )
    if not found:
        return ""
    kind = _math_type(*found.groups()[:3])
    return _label("GEMM", _size(found[4]), kind, found[5], library="cublas")


def _nvjet(text: str) -> str:
    found = re.match(r"nvjet_(?:\w+?_)?([a-z])[a-z]+_(\d+x\d+)_\w*?_?([TN]{2})[TN]?(?:_|$)", text)
    if not found:
        return ""
    kind = _NVJET_TYPES.get(found[1], "")
    return _label("GEMM", _size(found[2]), kind, found[3].lower(), library="cublas")


def _xmma(text: str) -> str:
    found = re.match(r"sm\d+_xmma_(\w*?gemm)\w*?_([a-z0-9]+)_\w*?tilesize(\d+x\d+x\d+)", text)
    if not found:
        return ""
    kind = _TYPES.get(found[2], "")
    kernel = next((word for word in _CONVOLUTIONS if found[1].startswith(word)), "")
    own = "tensorrt" if text.endswith("_trt") else ""
    if kernel:
        return _label("conv", _CONVOLUTIONS[kernel], _size(found[3]), kind, library=own or "cudnn")
    return _label("GEMM", _size(found[3]), kind, library=own or "cublas")


def _tensile(text: str) -> str:
    found = re.match(r"Cijk_(A\w+?_B\w+?)_([A-Z])\w*?_MT(\d+x\d+x\d+)_", text)
    if not found:
        return ""
    kind, layout = _TENSILE_TYPES.get(found[2], ""), _TENSILE_LAYOUTS.get(found[1], "")
    return _label("GEMM", _size(found[3]), kind, layout, library="tensile")


def _convolution(text: str) -> str:
    found = re.match(r"igemm_(fwd|bwd|wrw)_gtc\w*?_(bf16|fp16|fp32)_\w*?bt(\d+x\d+x\d+)_", text)
    if found:
        words = _CONVOLUTIONS[found[1]], _size(found[3]), _TYPES[found[2]]
        return _label("conv", *words, library="miopen")
    found = re.match(
        r"(?:_\w+?_)?cudnn_(?:infer_|train_)?\w+?_([a-z])cudnn_(?:winograd_)?(\d+x\d+)_", text
    )
    if not found:
        return ""
    winograd = "Winograd" if "winograd" in text else ""
    kind = _BLAS_LETTERS.get(found[1], "")
    return _label("conv", winograd, _size(found[2]), kind, library="cudnn")


def _small(text: str) -> str:
    """Products with few columns, and what follows one: a bias, an activation, a sum of parts."""
    found = re.match(r"gemmSN_([NT]{2})_kernel<(\w+)", text)
    if found:
        kind = _TYPES.get(found[2], "")
        return _label("GEMM", "few columns", kind, found[1].lower(), library="cublas")
    found = re.match(r"epilogue::impl::globalKernel<(\w+)", text)
    return _label("epilogue", _TYPES.get(found[1], ""), library="cublas") if found else ""


def _cub(text: str) -> str:
    found = re.match(r"cub::(?:\w+::)*Device(\w+?)Kernel\b", text)
    return _label(_words(found[1]), library="cub") if found else ""


def _vectors(text: str) -> str:
    found = re.search(r"\b(gemv|dot|splitKreduce)\w*?(?:_kernel\w*|x::kernel|Nsp_kernel)<", text)
    if not found or "cublas" not in text:
        return ""
    family = {"gemv": "GEMV", "dot": "dot product", "splitKreduce": "split-K reduce"}[found[1]]
    return _label(family, _type_in(text[found.end() :]), library="cublas")


def _attention(text: str) -> str:
    newer = re.search(r"\bflash::FlashAttn(Fwd|Bwd)(Preprocess|Postprocess)?\w*<", text)
    if newer:
        part = (newer[2] or "").lower()
        return " ".join(filter(None, ("FlashAttention-3", newer[1].lower(), part, _type_in(text))))
    found = re.search(r"\bflash_(fwd|bwd)(\w*?)_kernel<.*?_traits<(\d+),", text)
    if not found:
        return ""
    part = "" if "_loop" in found[2] else found[2].strip("_").replace("_", " ")
    return " ".join(
        word for word in ("FlashAttention", found[1], part, _type_in(text), f"hd{found[3]}") if word
    )


def _triton(text: str) -> str:
    found = re.match(r"triton_(poi|red|per|tem|for)_fused_(\w+?)(?:_\d+)?$", text)
    if not found:
        return ""
    family = "fused reduction" if found[1] in ("red", "per") else "fused"
    return _label(family, found[2].strip("_"), library="triton")


def _native(text: str) -> str:
    head, _, inside = text.partition("<")
    if not head.startswith("at::native::") or not inside:
        return ""
    function = kernel_word(text)
    if "elementwise_kernel" in head:
        operation = _first(_FUNCTORS, inside)
        return _operation("elementwise", operation, inside)
    if head.endswith("reduce_kernel"):
        operation = _first(_REDUCTIONS, inside)
        return _operation("reduce", operation, inside)
    if "multi_tensor_apply" in head:
        return _label("multi-tensor", _first(_REDUCTIONS[2:], inside), library="at::native")
    word = re.sub("(?:CUDA|_)[Kk]ernel", "", function).removeprefix("cunn_")
    if not word.isidentifier():
        return ""
    return _label(_words(word), _type_in(inside, floats_only=True), library="at::native")


def _operation(family: str, operation: str, inside: str) -> str:
    if not operation:
        return ""
    return _label(family, operation, _type_in(inside), library="at::native")


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> str:
    found = (pattern.search(text) for pattern in patterns)
    return next((_words(each[1]) for each in found if each), "")


def _words(name: str) -> str:
    """Write names such as ``direct_copy`` or ``GeluBackward`` in words."""
    return _CAPITALS.sub(" ", name.replace("SoftMax", "Softmax")).replace("_", " ").strip().lower()


def _type_in(text: str, *, floats_only: bool = False) -> str:
    """First number type in template arguments; floats first, as integers are often indexes."""
    found = [_TYPES[each] for each in _TYPE.findall(text.partition("(")[0])]
    floats = (each for each in found if each.startswith(("bf", "fp")))
    return next(floats, found[0] if found and not floats_only else "")


LABEL_RULES: Final[tuple[Callable[[str], str], ...]] = (
    *(_collective, _cutlass, _blas, _nvjet, _xmma, _tensile, _convolution, _small, _vectors),
    *(_attention, _triton, _cub, _native),
)
"""The rules, in order: the first one that knows a name labels it."""


_DIFFERENCES: Final = 2
_RAREST: Final = 8
"""Maximum number of parts added to tell equal labels apart."""

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


def kernel_does(name: str) -> str:
    """What a kernel does, in a few words: its label without the library, or one word of its name.

    Examples
    --------
    >>> kernel_does("ampere_sgemm_128x64_nn"), kernel_does("void at::my_kernel<float>(int)")
    ('GEMM 128×64 fp32 nn', 'my_kernel')
    """
    does = readable_name(name).partition(_DOT)[0].removeprefix("elementwise ")
    return does or kernel_word(name)


def sequence_words(names: Sequence[str], at_most: int = 6) -> str:
    """Write a sequence of kernels in words, leaving out the middle of a long one.

    Examples
    --------
    >>> sequence_words(["ampere_sgemm_128x64_nn", "void add_bias(float*)", "void add_bias(float*)"])
    'GEMM 128×64 fp32 nn → add_bias (2×)'
    """
    runs = _first_runs(names, at_most + 2)
    if len(runs) <= at_most + 1:
        return " → ".join(map(_repeated, runs))
    first = runs[: (at_most + 1) // 2]
    last = _first_runs(reversed(names), at_most // 2)[::-1]
    left_out = len(names) - sum(count for _, count in first + last)
    gap = f"{ELLIPSIS} {left_out:,} more {ELLIPSIS}"
    return " → ".join([*map(_repeated, first), gap, *map(_repeated, last)])


def _first_runs(names: Iterable[str], at_most: int) -> list[tuple[str, int]]:
    """Return the first runs of equal words, each with its length, without reading the rest."""
    runs = groupby(map(kernel_does, names))
    return [(word, sum(1 for _ in run)) for word, run in islice(runs, at_most)]


def _repeated(run: tuple[str, int]) -> str:
    word, count = run
    return word if count == 1 else f"{word} ({count}×)"


def distinct_labels(
    names: Sequence[str], width: int = 48, *, among: Iterable[str] = ()
) -> list[str]:
    """Label names so that different names stay different; those without a label are shortened.

    Labels that would be alike end with the parts in which the names differ, from each other and
    from all further names that they are `among`. What lists kernels of one job gives the names of
    all: a chart of three GEMMs once had the label of one at the bar of another.

    Examples
    --------
    >>> distinct_labels(["triton_poi_fused_add_0", "triton_poi_fused_add_1", "mine"])
    ['fused add · triton (0)', 'fused add · triton (1)', 'mine']
    """
    alike = {readable_name(name) or short_name(name, width) for name in names}
    others = (each for each in among if (readable_name(each) or short_name(each, width)) in alike)
    return _distinct([*names, *dict.fromkeys(others)], width)[: len(names)]


def _distinct(names: Sequence[str], width: int) -> list[str]:
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        alike[readable_name(name)].append(name)
    unknown = alike.pop("", [])
    labels = {
        name: label
        for family, group in alike.items()
        for name, label in zip(group, _told_apart(family, group, width), strict=True)
    }
    times = Counter(labels.values())
    kept = {
        name: each
        for name, each in labels.items()
        if each and times[each] == 1 and len(each) <= width
    }
    rest = [*unknown, *(name for name in labels if name not in kept)]
    shown = kept | dict(zip(rest, distinct_names(rest, width), strict=True))
    if len(set(shown.values())) < len(shown):
        return distinct_names(names, width)
    return [shown[name] for name in names]


def _told_apart(label: str, names: Sequence[str], width: int) -> list[str]:
    """The label of each name with parts that no other name has all of; empty if none fit.

    Among fewer names, such as those of a window, other parts may suffice, but a label must never
    belong to a different kernel here.
    """
    if len(names) == 1:
        return [label]
    parts = [list(dict.fromkeys(_PARTS.findall(name))) for name in names]
    times = Counter(part for of_name in parts for part in of_name)
    held, found = [{*each} for each in parts], []
    for of_name in parts:
        rarest = sorted(of_name, key=times.__getitem__)[:_RAREST]
        tried = (marks for n in range(1, _DIFFERENCES + 1) for marks in combinations(rarest, n))
        own = (marks for marks in tried if sum(each.issuperset(marks) for each in held) == 1)
        labels = (f"{label} ({', '.join(marks)})" for marks in own)
        found.append(next((each for each in labels if len(each) <= width), ""))
    return found
