"""The command that profiles one kernel of a job with the tool of its vendor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice
from hta_widgets.names.demangling import is_mangled
from hta_widgets.names.shorten import kernel_word

MOST_CHARACTERS: Final = 200
"""Longest whole name in a command: names of Tensile have 400 characters."""

_ABBREVIATED: Final = re.compile(r"(__omp_offloading_[0-9a-f]+_[0-9a-f]+)_.*\.\.\.")
"""Names that Nsight Systems numbers: ``__omp_offloading_31_18a80bc__Z_2...`` stands for
``__omp_offloading_31_18a80bc__Z2mmlllid_l28``, so that no kernel is found by its end."""

_WORD: Final = re.compile(r"\w+", re.ASCII)

_STARTS: Final = {
    Condition.VLLM: "vllm serve MODEL",
    Condition.SGLANG: "python -m sglang.launch_server --model-path MODEL",
    Condition.NO_PYTORCH: "./program",
}
"""Commands that start an inference server or a program without PyTorch; other jobs are scripts."""


def advice_to_profile(
    context: Context, name: str, names: Iterable[str], *, is_long: bool
) -> Advice:
    """Advice to use the kernel profiler that shows what limits a kernel."""
    word, known = word_for_shell(name, names), context.conditions()
    if Condition.AMD in known:
        tool, code = "ROCm Compute Profiler", f"rocprof-compute profile -n run -k {word} --"
    else:
        launches = 1 if is_long else 3
        code = f"ncu --set full {_filter_of_ncu(word, name, names)} -c {launches}"
        tool = "Nsight Compute"
    do = f"The trace cannot tell how to speed it up: profile it with {tool}."
    if is_long:
        do = f"Profile it on a smaller problem with {tool}, which repeats each launch many times."
    starts = next((line for each, line in _STARTS.items() if each in known), "python script.py")
    return Advice(do, f"{code} {starts}" if word else "")


def word_for_shell(name: str, names: Iterable[str]) -> str:
    """A word by which profilers find a kernel, and if possible no other one.

    A name from the trace becomes part of a shell command, so only words are used.
    """
    if abbreviated := _ABBREVIATED.fullmatch(name):
        return abbreviated[1]
    word = re.match(r"\w*", kernel_word(name), re.ASCII)
    found = word[0] if word else ""
    others = [each for each in names if each != name]
    is_readable = _WORD.fullmatch(name) and not is_mangled(name)
    if is_readable and any(found in each for each in others):
        return _own_part(name, others) or (name if len(name) <= MOST_CHARACTERS else found)
    return found


def _own_part(name: str, others: Sequence[str]) -> str:
    """The longest part of a name that is in no other one; empty if there is none."""
    parts = sorted(name.split("_"), key=len, reverse=True)
    return next((each for each in parts if not any(each in other for other in others)), "")


def _filter_of_ncu(word: str, name: str, names: Iterable[str]) -> str:
    """Options by which Nsight Compute finds a kernel, and as few others as possible.

    Templates share their first word, so another one follows, from the arguments. Numbers do not:
    each demangler writes them in its own way. It compares the function's name without namespaces
    and arguments, unless it is told to compare another one: no part of a mangled name fits that.
    """
    alike = [each for each in names if each != name and word in each]
    if alike and word == name:
        return f"-k {name}"  # without regex, all of the name has to match
    if is_mangled(name) and _WORD.fullmatch(name) and (alike or is_mangled(word)):
        return f"--kernel-name-base mangled -k regex:{_own_part(name, alike) or word}"
    if f"{word}::" in name:  # a function as short as cutlass::Kernel is told by its arguments
        own = re.findall(r"[A-Za-z_]\w*", name.partition("<")[2], re.ASCII)
        own = [each for each in own if not any(each in other for other in alike)] or own
        return f"--kernel-name-base demangled -k regex:{max(own, key=len, default=word)}"
    of_arguments = re.findall(r"[A-Za-z_]\w*", name.partition(f"{word}<")[2], re.ASCII)
    shared = {each: sum(each in other for other in alike) for each in of_arguments}
    for own in sorted(shared, key=lambda each: shared[each])[:1]:
        if shared[own] < len(alike):
            return f'--kernel-name-base demangled -k "regex:{word}.*{own}"'
    return f"-k regex:{word}"
