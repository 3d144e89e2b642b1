"""Hash what is private in a name, and keep what is public or read by an analysis.

A public name (`kept`) stays whole. In any other name, the parts that an analysis reads stay in
place, and the text between them becomes words that no pattern can match::

    aten::addmm                              aten::addmm
    load_acme_batch_collate                  vuqaxojakibobuka_collate
    /home/ann/acme/train.py(12): run         /gajobixu…/kuvixa…/bojaqu…/woxika….py(12): jiqavo…
    /x/site-packages/torch/a.py(15): f       /jokuxi…/site-packages/torch/a.py(15): f

With the same key, the same text becomes the same word, so grouping by name gives the same groups.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from hta_widgets.export.anonymise import kept
from hta_widgets.names.demangling import demangled
from hta_widgets.trace.model.server_steps import step_span

_CONSONANTS: Final = "jkqvwxbg"
_VOWELS: Final = "aiou"
"""No pattern of an analysis consists of these, so that a hashed word matches none."""

_SYLLABLES: Final = tuple(c + v for c in _CONSONANTS for v in _VOWELS)
_LENGTH: Final = 8
"""Syllables of five bits: with 100,000 names, two share a word in 1 of 200 jobs."""

_FRAME: Final = re.compile(r"(.*?)(\(\d{1,9}\)): (.*)", re.DOTALL)
_BUILT_IN: Final = re.compile(
    r"<built-in (function|method) (\S+)(?: of (\S+) object at (0x[0-9a-f]+))?>"
)
_INSTANCE: Final = re.compile(r"(.*?)(_\d{1,9})?", re.DOTALL)
_CHAIN: Final = re.compile(r"(?:\w+|\(anonymous namespace\))(?:::(?:\w+|\(anonymous namespace\)))*")
_CALLED: Final = re.compile(r"[^.():]+")
_SEPARATORS: Final = re.compile(r"([\\/])")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_FILE_WORD: Final = re.compile(r"[^\W_]+")
_OPERATOR: Final = re.compile(r"\w+(?:\.\w+)?")
_VERSION: Final = re.compile(r"\d{1,4}(?:\.\d{1,4}){0,3}")
_STEP: Final = re.compile(r"step\[(\w+)((?: \w+=\d{1,18})*)\]")
_ATOM: Final = re.compile(r"(?:prefill|decode)\[bs=\d{1,18}(?:/\d+)? tok=\d{1,18}")
_PYTHON_FOLDER: Final = re.compile(r"python[\d.]*")


class Names:
    """Texts of a trace without anything private.

    The key is secret: whoever has it can check whether a guessed name is in the copy. `keep` lists
    packages and namespaces, such as ``vllm``, whose frames, operators and kernels are public.
    """

    def __init__(self, key: bytes, keep: Sequence[str] = (), *, keep_kernels: bool = False) -> None:
        self._key = key
        self._packages = kept.PACKAGES | set(keep)
        self._namespaces = kept.NAMESPACES | set(keep)
        self._cpp_namespaces = kept.CPP_NAMESPACES | set(keep)
        self._keeps_kernels = keep_kernels
        self._known: dict[tuple[str, str], str] = {}

    def word(self, text: str) -> str:
        """The word of a text: letters, capitalised if the text starts with a capital.

        It has a hyphen in the middle if the text is more than one word.
        """
        if not text:
            return ""
        found = self._known.get(("word", text))
        if found is not None:
            return found
        digest = hmac.new(self._key, text.encode("utf-8", "surrogatepass"), sha256).digest()
        number = int.from_bytes(digest[:5], "big")
        parts = [_SYLLABLES[number >> 5 * place & 31] for place in range(_LENGTH)]
        if not re.fullmatch(r"\w+", text):
            parts.insert(_LENGTH // 2, "-")
        made = "".join(parts)
        self._known["word", text] = made = made.capitalize() if text[0].isupper() else made
        return made

    def category(self, text: str) -> str:
        """A category of events."""
        known = kept.CATEGORIES.fullmatch(text)
        return text if known else self._hidden(text, kept.READ_IN_CATEGORIES)

    def event(self, category: str, name: str) -> str:
        """The name of an event of a category."""
        rule = self._rule_of(category)
        key = (rule.__name__, name)
        if key not in self._known:
            self._known[key] = rule(name)
        return self._known[key]

    def kernel(self, name: str) -> str:
        """The name of a kernel; a mangled name is written demangled."""
        if self._keeps_kernels or kept.GPU_TEXTS.fullmatch(name):
            return name
        fused = kept.FUSED.fullmatch(name)
        if fused:
            words = re.split("(_)", fused[1])
            inside = "".join(
                word if word in kept.FUSED_WORDS else self._hidden(word, kept.READ_IN_KERNELS)
                for word in words
            )
            return name[: fused.start(1)] + inside + name[fused.end(1) :]
        text = demangled(name)
        parts, place = [], 0
        for found in _CHAIN.finditer(text):
            parts += [text[place : found.start()], self._chain(found, text)]
            place = found.end()
        return "".join([*parts, text[place:]])

    def api(self, name: str) -> str:
        """The name of a runtime or driver call, or of an activity of the profiler."""
        is_public = kept.APIS.fullmatch(name) or kept.GPU_TEXTS.fullmatch(name)
        return name if is_public else self.call(name)

    def operator(self, name: str) -> str:
        """The name of an operator."""
        if name.startswith(kept.EVALUATES):
            return kept.EVALUATES + self.operator(name[len(kept.EVALUATES) :])
        space, colons, inside = name.partition("::")
        is_public = colons and space in self._namespaces and _OPERATOR.fullmatch(inside)
        return name if is_public or kept.DERIVATIVE.fullmatch(name) else self.call(name)

    def call(self, name: str) -> str:
        """The name of an annotation, or of an operator that is not PyTorch's."""
        if kept.CALLS.fullmatch(name):
            return name
        if kept.FUSED.fullmatch(name):
            return self.kernel(name)
        return self._server_span(name) or self._hidden(name, kept.READ_IN_CALLS)

    def frame(self, name: str) -> str:
        """The name of a Python function, or of a module."""
        if name.startswith(kept.MODULE):
            found = _INSTANCE.fullmatch(name[len(kept.MODULE) :])
            of_class, number = (found[1], found[2] or "") if found else ("", "")
            is_public = of_class in kept.MODULES
            shown = of_class if is_public else self._hidden(of_class, kept.READ_IN_CALLS)
            return f"{kept.MODULE}{shown}{number}"
        if found := _BUILT_IN.fullmatch(name):
            return self._built_in(found)
        if found := _FRAME.fullmatch(name):
            path, is_public = self._path(found[1])
            function = found[3] if is_public else self._hidden(found[3], kept.READ_IN_CALLS)
            return f"{path}{found[2]}: {function}"
        return self._hidden(name, kept.READ_IN_CALLS)

    def path(self, path: str) -> str:
        """The path of a file, folder by folder."""
        return self._path(path)[0]

    def stack(self, text: str) -> str:
        """Frames with semicolons between them."""
        return ";".join(map(self.frame, text.split(";"))) if text else text

    def hierarchy(self, text: str) -> str:
        """Modules around an operator: ``TOP(Net)::forward.conv1(Conv2d)::forward.``."""
        public = {"TOP", "SELF", "forward"} | kept.MODULES
        return self._but(public.__contains__, _CALLED, text)

    def group(self, text: str) -> str:
        """The name or description of a process group."""
        return self._but(
            lambda word: word.isdigit() or word.lower() in kept.GROUP_WORDS, _WORD, text
        )

    def type(self, text: str) -> str:
        """The type of an input of an operator."""
        return _CHAIN.sub(
            lambda found: found[0] if found[0] in _INPUT_TYPES else self._chain(found, text), text
        )

    def version(self, text: str) -> str:
        """A version, with a word for what follows its numbers."""
        found = _VERSION.match(text)
        end = found.end() if found else 0
        return text[:end] + (f"+{self.word(text[end:])}" if text[end:] else "")

    def file(self, name: str) -> str:
        """The name of a file, which keeps its rank, node, process and time."""
        return self._but(kept.FILE_WORDS.fullmatch, _FILE_WORD, name)

    def _but(self, is_public: Callable[[str], object], word: re.Pattern[str], text: str) -> str:
        """A text in which all but the public words are replaced."""
        return word.sub(
            lambda found: found[0] if is_public(found[0]) else self.word(found[0]), text
        )

    def _rule_of(self, category: str) -> Callable[[str], str]:
        lower = category.lower()
        if lower == "python_function":
            return self.frame
        if lower.endswith(("_runtime", "_driver")) or lower in _OF_APIS:
            return self.api
        if lower in _OF_OPERATORS:
            return self.operator
        return self.kernel if lower in _OF_KERNELS else self.call

    def _server_span(self, name: str) -> str:
        """The span of a server step; empty for any other name."""
        span = step_span(name)
        if span is None:
            return ""
        if found := _STEP.fullmatch(name):
            mode = found[1] if found[1].upper() in kept.SERVER_MODES else self.word(found[1])
            counts = [each.partition("=") for each in found[2].split()]
            said = [f" {key}={value}" for key, _, value in counts if key in kept.SERVER_COUNTS]
            return f"step[{mode}{''.join(said)}]"
        if found := _ATOM.match(name):
            return f"{found[0]}]"
        return name

    def _built_in(self, found: re.Match[str]) -> str:
        """A built-in function, whose name is kept if it is Python's or PyTorch's."""
        what, name, owner, address = found.groups()
        is_public = owner is not None and kept.BUILT_IN_OWNERS.fullmatch(owner)
        if not (is_public or name in _BUILT_IN_FUNCTIONS):
            name = self._hidden(name, kept.READ_IN_CALLS)
        if owner is None:
            return f"<built-in {what} {name}>"
        shown = owner if is_public else self._hidden(owner, kept.READ_IN_CALLS)
        return f"<built-in {what} {name} of {shown} object at {address}>"

    def _path(self, path: str) -> tuple[str, bool]:
        """A path, and whether everything in the file is public."""
        parts = _SEPARATORS.split(path)
        package = self._package(parts)
        if package is None:
            return "".join(self._folders(parts)), False
        return "".join([*self._folders(parts[:package]), *parts[package:]]), True

    def _package(self, parts: Sequence[str]) -> int | None:
        """Position of the public package in a path; None if it has none."""
        for place in range(0, len(parts), 2):
            is_first = place == 0 or (
                parts[place - 2] in kept.CONTAINERS or _PYTHON_FOLDER.fullmatch(parts[place - 2])
            )
            if is_first and parts[place] in self._packages and place + 2 < len(parts):
                return place
        return 0 if parts[0].startswith("<frozen importlib") and len(parts) == 1 else None

    def _folders(self, parts: Sequence[str]) -> Iterator[str]:
        for part in parts:
            stem, dot, ending = part.rpartition(".")
            if not (dot and ending in _ENDINGS):
                stem, dot, ending = part, "", ""
            is_public = stem in _PUBLIC_FOLDERS or _PYTHON_FOLDER.fullmatch(stem)
            yield (stem if is_public else self._hidden(stem, _READ_IN_FOLDERS)) + dot + ending

    def _chain(self, found: re.Match[str], text: str) -> str:
        """Names with colons between them, such as ``at::native::add``."""
        chain, before = found[0], text[max(0, found.start() - 2) : found.start()]
        if before != "::" and chain.partition("::")[0] in self._cpp_namespaces and "::" in chain:
            return chain
        if all(
            word == "(anonymous namespace)"
            or kept.CPP_WORDS.fullmatch(word)
            or kept.KERNELS.fullmatch(word)
            for word in chain.split("::")
        ):
            return chain
        return self._hidden(chain, kept.READ_IN_KERNELS)

    def _hidden(self, text: str, parts: Sequence[re.Pattern[str]]) -> str:
        """The text with words in place of everything but the given parts."""
        spans = sorted(found.span() for part in parts for found in part.finditer(text) if found[0])
        made, place = [], 0
        for start, end in spans:
            if start > place:
                made.append(self._gap(text[place:start], is_first=place == 0, is_last=False))
            if end > place:
                made.append(text[max(start, place) : end])
                place = end
        if place < len(text):
            made.append(self._gap(text[place:], is_first=place == 0, is_last=True))
        return "".join(made)

    def _gap(self, text: str, *, is_first: bool, is_last: bool) -> str:
        """The text between two parts, as a word with its separators."""
        inner, before, after = text, "", ""
        if not is_first and inner and not inner[0].isalpha():
            before, inner = inner[0], inner[1:]
        if not is_last and inner and not inner[-1].isalpha():
            after, inner = inner[-1], inner[:-1]
        return before + self.word(inner) + after


_OF_KERNELS: Final = kept.words("""
    kernel concurrent_kernel gpu_memcpy memcpy gpu_memset memset mtia_ccp_events cuda_profiler_range
    """)
_OF_OPERATORS: Final = frozenset({"cpu_op", "operator"})
_OF_APIS: Final = kept.words("runtime driver overhead cuda_sync hip_sync xpu_sync")
_PUBLIC_FOLDERS: Final = (
    frozenset(("", "/", "\\", ".", "..", "~")) | kept.CONTAINERS | kept.PYTHON | kept.FOLDERS
)
_READ_IN_FOLDERS: Final = (*kept.READ_IN_CALLS, re.compile(r"(?:torch|triton)$"))
_ENDINGS: Final = frozenset(("py", "pyx", "cpp", "cu", "json", "so"))
_INPUT_TYPES: Final = kept.words("""
    Scalar ScalarList TensorList GenericList Tensor Dict Tuple Device ScalarType
    """)
_BUILT_IN_FUNCTIONS: Final = kept.words("""
    len isinstance issubclass getattr setattr hasattr max min sum all any iter next print collect
    id hash repr sorted abs round divmod callable time perf_counter sleep
    """)
