"""Shorten the names of kernels and operators, which can have thousands of characters.

`short_name` and `kernel_word` shorten one name, which may also be a Python frame.
`distinct_names` shortens several names so that different ones stay different: it finds the forks,
where names that would look alike part from each other, and shows the words there::

    reduce_kernel<128, int, at::Sum>      reduce_kernel<128, …
    reduce_kernel<512, int, at::Sum>      reduce_kern…512…int…
    reduce_kernel<512, float, at::Sum>    reduce_ke…512…float…
                  ↑    ↑                  at most 20 characters
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import lru_cache, wraps
from itertools import accumulate, count, pairwise
from typing import Final, ParamSpec, TypeAlias, TypeVar, cast

from hta_widgets.names.demangling import demangled

Texts = ParamSpec("Texts")
Said = TypeVar("Said")

ELLIPSIS = "…"
_SHORTEST_WORD = 9
_WORD_WIDTH = 40
NAMES_REMEMBERED, LONGEST_REMEMBERED = 4096, 4096
_NAMESPACE = re.compile(r"\(anonymous namespace\)::|\b\w+::")
_WORDS = re.compile(r"^\w+")
_NAME = re.compile(r"(?:\w+::)*(\w{9,})")
_OF_ITS_ARGUMENTS = re.compile(r"(?:device_|(?:\w+_)?elementwise_|reduce_)kernel|[gG]lobalKernel")
"""Templates whose arguments say what they do; words shorter than these say too little as well."""
_TEMPLATE_ARGUMENTS = re.compile(r"(?<!operator)<[^<>]*>")

_FRAME: Final = re.compile(r"^(?:.*/)?([^/]*)(\.py\(\d+\): .*)$", re.DOTALL)
_BUILT_IN: Final = re.compile(
    r"^<(?:built-in )?(?:function|method) (\S+?)(?:(?: of (\S+) object)? at 0x[0-9a-f]+)?>$"
)
_OF_DLPROF: Final = re.compile(
    r"^\{'(?:mod': '(?P<mod>[\w.]+)', 'op': '|traceMarker': .*'funcStack': '.*/)(?P<op>\w+)'"
)
"""Ranges of nvidia-dlprof-pytorch-nvtx: a call with its arguments, or where it is made."""
_NO_OWNER: Final = {None, "type"}
"""Owners that carry no information: that of a function, and that of an unnamed class's method."""

_LEAST_OF_FILE: Final = 4

_Ranges: TypeAlias = Sequence[tuple[int, int]]


_VARIANT = re.compile(r"(_ptsz|_ptds|_v\d{4,})+$")


def remembered(of_texts: Callable[Texts, Said]) -> Callable[Texts, Said]:
    """Cache the results of a function for a few thousand texts, except for very long ones."""
    known = cast("Callable[Texts, Said]", lru_cache(maxsize=NAMES_REMEMBERED)(of_texts))

    @wraps(of_texts)
    def look_up(*texts: Texts.args, **named: Texts.kwargs) -> Said:
        length = sum(map(len, cast("Iterable[Sized]", texts)))
        return (known if length <= LONGEST_REMEMBERED else of_texts)(*texts, **named)

    return look_up


def short_name(name: str, width: int = 48) -> str:
    """Drop the return type and the arguments, and shorten to at most `width` characters.

    A longer C++ name loses its template arguments, then its namespaces, and then its middle. Names
    that the recorder could not demangle, such as those with bfloat16, are demangled. A Python frame
    loses folders instead, the outermost first; a built-in function is reduced to its name.

    Examples
    --------
    >>> short_name("void at::native::add<float>(int, float)")
    'at::native::add<float>'
    >>> short_name("_ZN5aiter11norm_kernelIDF16bEEvPT_")
    'aiter::norm_kernel<std::bfloat16_t>'
    >>> short_name("std::enable_if<(((8)>(0))), void>::type vllm::fused_norm<c10::BFloat16>(int)")
    'vllm::fused_norm<c10::BFloat16>'
    >>> short_name("step 3 forward(batch)")
    'step 3 forward'
    >>> short_name("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)")
    'multimem_all_reduce_kernel<c10::BFloat16, 16>'
    >>> short_name("void moe::finalize::finalizeKernel<moe::Params<16, 4, true> >(int)", 40)
    'moe::finalize::finalizeKernel<…>'
    >>> short_name("Memcpy HtoD (Pageable -> Device)")
    'Memcpy HtoD (Pageable -> Device)'
    >>> short_name("a_very_long_kernel_name", 11)
    'a_ver…_name'
    >>> short_name("transformers/models/bert/modeling_bert.py(364): forward")
    '…/models/bert/modeling_bert.py(364): forward'
    >>> short_name("<built-in function zoom>")
    'zoom'
    """
    plain = _without_return(without_built_in(demangled(name)))
    if len(plain) > width:
        plain = _brief(plain, width)
    return cut_in_the_middle(without_folders(plain, width), width)


def plain_name(name: str) -> str:
    """Return a name without the template arguments and the signature of C++.

    Examples
    --------
    >>> plain_name("void at::native::add<std::array<char*, 2> >(int)")
    'at::native::add'
    """
    return _without_templates(short_name(name, len(name)))


def without_built_in(name: str) -> str:
    """Name of a function, instead of its ``repr``, or of a call marked by DLProf.

    Other names are unchanged.

    Examples
    --------
    >>> without_built_in("<built-in function zoom>")
    'zoom'
    >>> without_built_in("<built-in method run_backward of torch._C._EngineBase object at 0x7f2>")
    'run_backward of torch._C._EngineBase'
    >>> without_built_in("<function main at 0x739f125465c0>")
    'main'
    >>> without_built_in("<built-in method conv2d of type object at 0x7f2d>")
    'conv2d'
    >>> without_built_in("{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': []}")
    'torch.nn.functional.conv2d'
    """
    if marker := _OF_DLPROF.match(name):
        return ".".join(filter(None, marker.groups()))
    found = _BUILT_IN.match(name)
    if found is None:
        return name
    return found[1] if found[2] in _NO_OWNER else f"{found[1]} of {found[2]}"


def without_folders(name: str, width: int) -> str:
    """Cut the start of a frame longer than `width`: folders, then the start of the file name.

    If there is no room for the file, only the function is left. Other names are unchanged.

    Examples
    --------
    >>> without_folders("transformers/models/bert/modeling_bert.py(364): forward", 48)
    '…/models/bert/modeling_bert.py(364): forward'
    >>> without_folders("transformers/models/bert/modeling_bert.py(364): forward", 28)
    '…eling_bert.py(364): forward'
    >>> without_folders("/workspace/sglang/runner.py(276): populate_from_forward_batch", 40)
    'populate_from_forward_batch'
    """
    frame = _FRAME.match(name) if len(name) > width else None
    if frame is None:
        return name
    start = len(name) - width + len(ELLIPSIS)
    if start > frame.start(2) - min(_LEAST_OF_FILE, len(frame[1])):
        return frame[2].partition("): ")[2]
    slash = name.find("/", start, frame.start(1))
    return f"{ELLIPSIS}{name[slash if slash >= 0 else start :]}"


@remembered
def kernel_word(name: str) -> str:
    """Return a kernel's name in one word: no namespaces, template arguments or signature.

    Words that are too short to mean much, such as ``Kernel``, keep their surroundings.

    Examples
    --------
    >>> kernel_word("void at::native::vectorized_elementwise_kernel<4, Array<char*, 2> >(int)")
    'vectorized_elementwise_kernel'
    >>> kernel_word("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>(Params)")
    'cutlass::Kernel<cutl…tensorop_s1688gemm>'
    >>> kernel_word("Memcpy HtoD (Pageable -> Device)")
    'Memcpy HtoD'
    """
    if name.startswith("Mem"):
        return name.partition(" (")[0]
    short = short_name(name, _WORD_WIDTH)
    plain = _without_templates(_without_arguments(name.replace("(anonymous namespace)::", "")))
    word = plain.rpartition("::")[2].rpartition(" ")[2]
    return word if _SHORTEST_WORD <= len(word) <= len(short) else short


def distinct_names(names: Sequence[str], width: int = 48) -> list[str]:
    """Shorten names so that different names stay different.

    Names that `short_name` would make equal lose their namespaces, as long as that keeps them
    different; if they are still too long, they lose some of what they have in common. As a last
    resort they are numbered.

    Examples
    --------
    >>> distinct_names(["at::pair_kernel<float, char*, 2>", "at::pair_kernel<int, char*, 2>"], 24)
    ['pair_kernel<float, char…', 'pair_kernel<int, char*,…']
    """
    texts = {name: demangled(name) for name in names}
    if len(set(texts.values())) < len(texts):
        texts = {name: name for name in names}
    short = {text: short_name(text, width) for text in texts.values()}
    for alike in _by_text(short):
        apart = _told_apart(alike, width)
        if not set(apart.values()) & {short[name] for name in short.keys() - set(alike)}:
            short |= apart
    for alike in _by_text(short):
        short |= _numbered(alike, width, taken=set(short.values()))
    return [short[texts[name]] for name in names]


def cut_in_the_middle(text: str, width: int) -> str:
    """Keep the beginning and the end of a text that is longer than `width` characters."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}{ELLIPSIS}{text[len(text) - tail :]}"


def _without_return(name: str) -> str:
    """Drop the argument list at the end of a C++ signature, and the type before its name.

    A type without namespace and template is kept, as it may be part of an annotation's name, such
    as ``step 3 forward(batch)``.
    """
    name = name.removeprefix("void ")
    if (plain := _without_arguments(name)) == name:
        return name
    depth = 0
    for position in range(len(plain) - 1, 0, -1):
        letter = plain[position]
        depth += (letter in ")>") - (letter in "(<")
        if letter == " " and depth == 0:
            kind = plain[:position]
            return plain[position + 1 :] if "<" in kind or "::" in kind else plain
    return plain


def _brief(name: str, width: int) -> str:
    """Drop template arguments and namespaces of a C++ name, as far as it is too long."""
    name = name.replace("(anonymous namespace)::", "")
    bare = _without_templates(name)
    found = None if bare == name else _NAME.fullmatch(bare)
    if len(name) <= width or found is None or _OF_ITS_ARGUMENTS.fullmatch(found[1]):
        return name
    texts = (f"{bare}<{ELLIPSIS}>", f"{found[1]}<{ELLIPSIS}>")
    return next((text for text in texts if len(text) <= width), bare)


def _without_arguments(name: str) -> str:
    """Drop the argument list at the end of a C++ signature."""
    if not name.endswith(")"):
        return name
    depth = 0
    for position in range(len(name) - 1, 0, -1):
        depth += (name[position] == ")") - (name[position] == "(")
        if depth == 0:
            return name if name[position - 1] == " " else name[:position]
    return name


def _without_templates(name: str) -> str:
    while (inner := _TEMPLATE_ARGUMENTS.sub("", name)) != name:
        name = inner
    return name


def _by_text(short: Mapping[str, str]) -> list[list[str]]:
    """Group the names that have the same short form."""
    groups = defaultdict(list)
    for name, text in short.items():
        groups[text].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _told_apart(names: Sequence[str], width: int) -> dict[str, str]:
    """Return short forms that show where the names differ, or none if there is no room."""
    texts = _plain(names)
    if max(map(len, texts)) <= width:
        return dict(zip(names, texts, strict=True))
    forks = _forks(texts)
    for around in (_word_around, _character_at):
        parts = [[around(text, fork) for fork in at] for text, at in zip(texts, forks, strict=True)]
        grown = _grown(texts, parts, width)
        if grown:
            return dict(zip(names, grown, strict=True))
    return {}


def _plain(names: Sequence[str]) -> list[str]:
    """Drop arguments and namespaces while the names stay different."""
    whole = [name.removeprefix("void ") for name in names]
    bare = [_without_arguments(name) for name in whole]
    for texts in ([_NAMESPACE.sub("", name) for name in bare], bare):
        if len(set(texts)) == len(names):
            return texts
    return whole


def _forks(texts: Sequence[str]) -> list[list[int]]:
    """Find the positions at which each text diverges from some of the others.

    In sorted order, two texts share the shortest of the beginnings that neighbours between them
    share, so running minima from each text outwards give all its forks::

        k<128, int>
                        shares 2 characters
        k<512, float>
                        shares 7
        k<512, int>     forks at 7, and at min(7, 2) = 2
    """
    order = sorted(range(len(texts)), key=texts.__getitem__)
    shared = [in_common(texts[one], texts[other]) for one, other in pairwise(order)]
    forks: list[list[int]] = [[] for _ in texts]
    for place, index in enumerate(order):
        after, before = shared[place:], shared[:place][::-1]
        forks[index] = sorted({*accumulate(after, min), *accumulate(before, min)})
    return forks


def _first_word(text: str) -> str:
    return next(iter(_WORDS.findall(text)), "")


def in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many characters, or other items, two sequences share at their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _word_around(text: str, fork: int) -> tuple[int, int]:
    start, end = fork, fork + 1
    while start > 0 and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return start, end


def _character_at(_: str, fork: int) -> tuple[int, int]:
    return fork, fork + 1


def _grown(texts: Sequence[str], parts: Sequence[_Ranges], width: int) -> list[str] | None:
    """Show the parts of each text and what else fits; return None if not even the parts fit.

    With equal amounts around the parts of all texts they stay different. Texts that have room left
    are filled up, unless that makes two of them equal.
    """
    alike = _most_that_fits(texts, parts, width, (0, 0))
    shown = [_cut_out(text, at, *alike) for text, at in zip(texts, parts, strict=True)]
    if max(map(len, shown)) > width:
        return None
    filled = [
        _cut_out(text, at, *_most_that_fits([text], [at], width, alike))
        for text, at in zip(texts, parts, strict=True)
    ]
    return filled if len(set(filled)) == len(texts) else shown


def _most_that_fits(
    texts: Sequence[str], parts: Sequence[_Ranges], width: int, most: tuple[int, int]
) -> tuple[int, int]:
    """Return how many characters of the head, and after each part, fit into the width.

    First the head grows to the end of the first word, then the text behind the parts, then the
    head again.
    """
    first_word = max(len(_first_word(text)) for text in texts)
    for grows, limit in ((0, first_word), (1, width), (0, width)):
        while most[grows] < limit:
            tried = (most[0] + (grows == 0), most[1] + (grows == 1))
            shown = (_cut_out(text, at, *tried) for text, at in zip(texts, parts, strict=True))
            if max(map(len, shown)) > width:
                break
            most = tried
    return most


def _cut_out(text: str, parts: _Ranges, head: int, follow: int) -> str:
    """Show the first `head` characters of a text, and its parts with `follow` more characters."""
    shown, reached = text[:head], min(head, len(text))
    for start, end in parts:
        if start > reached + 1:
            shown, reached = shown + ELLIPSIS, start
        until = min(end + follow, len(text))
        shown, reached = shown + text[reached:until], max(reached, until)
    return shown + (ELLIPSIS if reached < len(text) else "")


def _numbered(names: Iterable[str], width: int, taken: set[str]) -> dict[str, str]:
    """Return short forms with a number after all but the first."""
    numbered = {}
    for name in list(names)[1:]:
        candidates = (_with_number(short_name(name, width), place, width) for place in count(2))
        numbered[name] = next(text for text in candidates if text not in taken)
        taken.add(numbered[name])
    return numbered


def _with_number(text: str, number: int, width: int) -> str:
    mark = f" #{number}"
    return f"{cut_in_the_middle(text, width - len(mark))}{mark}"


def api_name(call: str) -> str:
    """Name of a call without the variant and version that some profilers append.

    Examples
    --------
    >>> api_name("cudaLaunchKernelExC_v11060"), api_name("cuLaunchKernel_ptsz")
    ('cudaLaunchKernelExC', 'cuLaunchKernel')
    >>> api_name("cuMemcpyHtoD_v2")
    'cuMemcpyHtoD_v2'
    """
    return _VARIANT.sub("", call) or call
