"""Kernel types: the purpose of GPU work. Rules on names decide, and users can add their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array
from hta_widgets.errors import ParameterError
from hta_widgets.names.shorten import remembered
from hta_widgets.trace.model.events import Events, Kind


class KernelType(IntEnum):
    """The five types, in the order in which names of combinations list them.

    CUDA_GRAPH is a CUDA graph that was recorded as a whole: whether it computes, communicates or
    copies is not known. OTHER is only what a user's rule calls OTHER.
    """

    COMPUTATION = 0
    COMMUNICATION = 1
    MEMORY = 2
    CUDA_GRAPH = 3
    OTHER = 4


OVERLAPPING: Final = " overlapping "
"""Separates the types in the name of a combination."""

TYPE_WORDS: Final = {
    KernelType.COMPUTATION.name: "compute",
    KernelType.COMMUNICATION.name: "communication",
    KernelType.MEMORY.name: "copies and memsets",
    KernelType.CUDA_GRAPH.name: "CUDA graphs",
    KernelType.OTHER.name: "other",
}
"""Name of each type for readers; in data, the types have HTA's names."""


def type_words(name: str) -> str:
    """A type or a combination of types in words.

    Examples
    --------
    >>> type_words("COMPUTATION overlapping MEMORY")
    'compute + copies and memsets'
    """
    return " + ".join(TYPE_WORDS[each] for each in name.split(OVERLAPPING))


MIGRATES: Final = re.compile(r"\(Unified\)")
"""Copies of managed-memory pages when the host or a kernel touches them; no call launches them."""

MIGRATES_TO_HOST: Final = re.compile(r"DtoH \(Unified\)")
"""Those to the host: while no kernel runs, only the host can have touched them."""

PREFETCHING: Final = re.compile(r"cu(?:da)?MemPrefetch")
"""Calls that ask for such copies ahead of time."""

COMPUTATION_NAMES = (r"(?:^|_)triton_(?:[a-z]{3}_)?fused_",)
"""TorchInductor names kernels after the operators that it fused: `triton_poi_fused_all_reduce_0`
prepares the input of an all-reduce."""

COMMUNICATION_NAMES = (
    r"^(void\s+)?nccl",
    r"nccl(Dev)?Kernel",
    r"rccl",
    r"msccl",
    r"nvshmem",
    r"deep_?ep::",
    r"\bep::(internode|intranode)",
    r"(?<![a-z])ep_?(dispatch|combine)",
    r"\buccl::",
    r"userbuffers_",
    r"cross_device_reduce",
    r"quick_?reduce::",
    r"(one|two)_?shot_?all_?reduce",
    r"multimem_",
    r"symm(etric)?_?mem",
    r"lamport",
    r"all_?reduce",
    r"all_?gather",
    r"reduce_?scatter",
    r"all_?to_?all(?!oc)",
    r"oneccl|\bccl::",
    r"^(hccl|hcom_)",
    r"^moe_a2a|a2a_?(dispatch|combine)",
)
"""NCCL (old and new spellings, also as a template), RCCL, MSCCL and MSCCL++, NVSHMEM, DeepEP,
MoRI, UCCL, userbuffers of TransformerEngine and TensorRT-LLM, the all-reduce kernels of vLLM,
SGLang, TensorRT-LLM, FlashInfer and AITER, PyTorch symmetric memory, oneCCL, HCCL, and the dispatch
and combine kernels of PPLX, TensorRT-LLM and FlashInfer. Matched anywhere in the name, ignoring
case."""

MEMORY_NAMES = (
    r"^(hip|cuda)?Mem(cpy|set)",
    r"^Copy(Host|Device)To(Host|Device)",
    r"^FillBuffer",
    r"__amd_rocclr_(copy|fill)Buffer",
    r"^dma",
)
"""Copies and memsets that a trace records as kernels."""

_TYPE_OF_KIND = {
    Kind.KERNEL: KernelType.COMPUTATION,
    Kind.MEMCPY: KernelType.MEMORY,
    Kind.MEMSET: KernelType.MEMORY,
    Kind.GRAPH: KernelType.CUDA_GRAPH,
}

BUSY_TYPES = {"Compute": KernelType.COMPUTATION, "Communicate": KernelType.COMMUNICATION}
"""Kernel type of `Kind.BUSY` events, by name."""


Rules = tuple[tuple[KernelType, re.Pattern[str]], ...]
"""Patterns for names and the type of matching kernels; the first match applies."""


@dataclass(frozen=True)
class KernelRules:
    """Rules for the type of each GPU operation.

    The first that applies decides: the user's patterns on the name; memcpy, memset and whole CUDA
    graphs by category; a kernel with collective fields is COMMUNICATION; the built-in patterns on
    the name (COMPUTATION first, then MEMORY, then COMMUNICATION); any other kernel is COMPUTATION.

    A copy between two GPUs is MEMORY, too: the trace does not say whether a collective, a pipeline
    or the placement of a tensor asked for it. A user's pattern can say so.
    """

    extra: Rules = ()
    """The user's rules, in order; each matches anywhere in the name."""

    @classmethod
    def from_user(
        cls, rules: Mapping[str, str | Sequence[str]] | KernelRules | None
    ) -> KernelRules:
        """Build the rules from ``{"COMMUNICATION": ["my_ring_", ...], ...}``.

        Raises `ParameterError` if a type does not exist, or a pattern is not a valid regular
        expression.
        """
        if isinstance(rules, KernelRules):
            return rules
        extra = [
            (_parse_type(name), _compile(pattern))
            for name, patterns in (rules or {}).items()
            for pattern in ([patterns] if isinstance(patterns, str) else patterns)
        ]
        return cls(tuple(extra))

    @property
    def fingerprint(self) -> str:
        """Text of all rules, including the built-in ones; equal only if the rules are equal."""
        patterns = [
            (each.name, pattern.pattern, pattern.flags)
            for rules in (self.extra, _BUILT_IN, _BUSY)
            for each, pattern in rules
        ]
        kinds = [(kind.name, each.name) for kind, each in _TYPE_OF_KIND.items()]
        return repr((patterns, kinds))

    def types(self, events: Events, rows: Int64Array) -> Int8Array:
        """Type of the GPU work in the given rows, as values of `KernelType`."""
        kind = events.kind[rows]
        codes = events.name.codes[rows]
        kernels = kind == Kind.KERNEL
        types = np.full(rows.size, KernelType.OTHER, dtype=np.int8)
        for work, work_type in _TYPE_OF_KIND.items():
            types[kind == work] = work_type
        by_name = _type_by_code(codes[kernels], events.name.values, _BUILT_IN)
        types[kernels] = np.where(by_name >= 0, by_name, KernelType.COMPUTATION)
        busy = kind == Kind.BUSY
        types[busy] = _type_by_code(codes[busy], events.name.values, _BUSY)
        collectives = events.side.get("collectives")
        if collectives is not None:
            types[kernels & np.isin(rows, collectives.rows)] = KernelType.COMMUNICATION
        if self.extra:
            by_user = _type_by_code(codes, events.name.values, self.extra)
            types = np.where(by_user >= 0, by_user, types).astype(np.int8)
        return types


def type_by_name(name: str) -> KernelType:
    """Type of a kernel by the built-in rules, if only its name is known."""
    code = _type_of_name(_BUILT_IN)(name)
    return KernelType.COMPUTATION if code < 0 else KernelType(code)


def built_in_rules(
    communication: Sequence[str],
    memory: Sequence[str],
    computation: Sequence[str] = COMPUTATION_NAMES,
) -> Rules:
    """Build rules on kernel names from patterns, ignoring case."""
    by_type = (
        (KernelType.COMPUTATION, computation),
        (KernelType.MEMORY, memory),
        (KernelType.COMMUNICATION, communication),
    )
    return tuple((each, re.compile("|".join(some), re.IGNORECASE)) for each, some in by_type)


_BUILT_IN = built_in_rules(COMMUNICATION_NAMES, MEMORY_NAMES)
_BUSY = tuple((each, re.compile(f"^{name}$")) for name, each in BUSY_TYPES.items())


def _type_by_code(codes: Int32Array, names: Sequence[str], rules: Rules) -> Int8Array:
    """Type by name, -1 where no rule applies; each distinct name is matched once."""
    by_code = np.full(len(names), -1, dtype=np.int8)
    type_of = _type_of_name(rules)
    for code in np.flatnonzero(np.bincount(codes, minlength=1)).tolist():
        by_code[code] = type_of(names[code])
    return by_code[codes]


@lru_cache(maxsize=16)
def _type_of_name(rules: Rules) -> Callable[[str], int]:
    """Cached lookup of names by the rules, because the ranks of a job have the same names."""

    @remembered
    def type_of(name: str) -> int:
        return next((int(each) for each, pattern in rules if pattern.search(name)), -1)

    return type_of


def _parse_type(name: str) -> KernelType:
    try:
        return KernelType[name.upper()]
    except KeyError:
        known = ", ".join(KernelType.__members__)
        msg = f"kernel_rules has the unknown kernel type {name!r}; the types are {known}"
        raise ParameterError(msg) from None


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        msg = f"kernel_rules: {pattern!r} is not a valid regular expression: {error}"
        raise ParameterError(msg) from None
