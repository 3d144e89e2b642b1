"""Recognise one kernel under the different names that profilers give it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hta_widgets.names.demangling import demangled

DEEPEST = 512
"""Names with brackets nested deeper are compared as they are."""

_TOKENS = re.compile(
    r"""
    (?P<anonymous> \(anonymous\ namespace\) | <unnamed> | _GLOBAL__N_\w* )
  | (?P<operator> operator \s* (?:
        \(\) | \[\] | <=> | ->\*? | (?:<<|>>|[-+*/%^&|!=<>])=? | && | \|\| | \+\+ | -- | ~ | ,
    ))
  | (?P<number> \d+ ) [uUlL]* (?![\w$.@])
  | (?P<closure> \#\d+\} | \(instance\ \d+\)\s*\] )
  | (?P<word> [\w$.@]+ )
  | (?P<mark> :: | -> | \S )
    """,
    re.VERBOSE,
)
_WORDS = {"true": "1", "false": "0"}
_CLOSES = {">": "<", ")": "(", "]": "[", "}": "{"}
_TRITON_SIGNATURE = re.compile(r"_(0[cde]*1[cde\d]*)$")
_TRITON_HINTS = re.compile(r"[cde]*")
_IN_A_WORD = re.compile(r"[\w$.@]")


def normalised_kernel_name(name: str) -> str:
    """Reduce the name of a kernel to what all profilers agree on, to compare it with others.

    Mangled names are demangled. Spaces, the return type, the types of literals, the place of
    ``const`` and what a compiler made of an anonymous namespace go. So do the arguments of
    functions with template arguments, since some profilers write them as ``T1``; of those of the
    kernel itself their number stays. Of the names of Triton kernels the signature goes that old
    versions append.

    Examples
    --------
    >>> normalised_kernel_name("void fill<4, std::array<char*, 2ul> >(int, std::array<char*, 2ul>)")
    'fill<4,std::array<char*,2>>(2)'
    >>> normalised_kernel_name(
    ...     "void fill<(int)4, std::array<char *, (unsigned long)2>>(int, T2)")
    'fill<4,std::array<char*,2>>(2)'
    """
    if name.startswith(("Memcpy ", "Memset ")):
        return name
    text = demangled(name.strip().removesuffix(".kd")).partition(" [clone ")[0]
    text = _without_triton_signature(text)
    return text if text.isidentifier() else _Reading().of(text) or name


def _without_triton_signature(name: str) -> str:
    """Cut a suffix such as ``_0d1d2d34de``: the numbers of the arguments, with hints on them."""
    found = _TRITON_SIGNATURE.search(name)
    if not found or not any(hint in found[1] for hint in "cde"):
        return name
    place, argument = 0, 0
    while found[1].startswith(str(argument), place):
        hints = _TRITON_HINTS.match(found[1], place + len(str(argument)))
        place, argument = (hints.end() if hints else place), argument + 1
    return name[: found.start()] if place == len(found[1]) else name


@dataclass
class _Group:
    """A bracket that is being read; places are those in the list of pieces.

    Attributes
    ----------
    opened_by : str
        Empty for the whole name.
    start : int
        Place of the bracket.
    holds_function : bool
        Its function's arguments end where the group does, as in ``(f<int>(float))``.
    element, name : int
        Begin of what stands between two commas, and of the last name in it.
    has_template : bool
        That name has template arguments.
    arguments : int
        Place of a list of arguments that has just been read, -1 for none.
    count : int
        Number of arguments in it.
    commas : int
    const : bool
        The element began with ``const``, which belongs behind the type.
    """

    opened_by: str
    start: int
    holds_function: bool
    element: int
    name: int
    has_template: bool = False
    arguments: int = -1
    count: int = 0
    commas: int = 0
    const: bool = False


@dataclass
class _Reading:
    """Reads a name once, from left to right, and notes which pieces of it to skip."""

    pieces: list[str] = field(default_factory=list)
    skips: dict[int, int] = field(default_factory=dict)
    groups: list[_Group] = field(default_factory=lambda: [_Group("", -1, True, 0, 0)])
    opened: Counter[str] = field(default_factory=Counter)

    def of(self, text: str) -> str:
        """Normalise a demangled name."""
        for token in _TOKENS.finditer(text):
            self._read(str(token.lastgroup), token[str(token.lastgroup)])
            if len(self.groups) > DEEPEST:
                return " ".join(text.split())
        whole = self.groups[-1]
        count = whole.count if not whole.opened_by and self._drop_arguments(whole) else -1
        if self.pieces[:1] == ["void"] and len(self.pieces) > 1:
            self.skips.setdefault(0, 1)
        return "".join(self._kept()) + (f"({count})" if count >= 0 else "")

    def _read(self, kind: str, text: str) -> None:
        group = self.groups[-1]
        if group.arguments >= 0:
            if text == "const":
                return
            if text == "::":
                self._drop_arguments(group)
            elif text not in _CLOSES:
                group.arguments = -1
        if kind == "closure":
            self._close_closure(group, text)
        elif kind == "mark":
            self._read_mark(group, text)
        elif text == "const":
            self._read_const(group)
        else:
            self._read_word(group, "{anonymous}" if kind == "anonymous" else text)

    def _read_word(self, group: _Group, text: str) -> None:
        text = "".join(text.split()) if text.startswith("operator") else _WORDS.get(text, text)
        if self._last() != "::":
            group.name, group.has_template = len(self.pieces), False
        if text.isdigit() and group.opened_by == "<":
            self._drop_cast(group)
        self.pieces.append(text)

    def _read_const(self, group: _Group) -> None:
        if len(self.pieces) == group.element:
            group.const = True
        elif self._last() != "const":
            self.pieces.append("const")

    def _read_mark(self, group: _Group, text: str) -> None:
        if text in _CLOSES:
            self._close(group, text)
        elif text in "([{" or (text == "<" and self._after_name()):
            self._open(text)
        elif text == ",":
            self._place_const(group)
            self.pieces.append(",")
            group.commas += 1
            group.element = group.name = len(self.pieces)
            group.has_template = False
        elif len(self.pieces) > group.element or text not in ("::", "&"):
            if text in "*&":
                self._place_const(group)
            self.pieces.append(text)

    def _open(self, bracket: str) -> None:
        place = len(self.pieces)
        wraps = bracket == "(" and not (self._after_name() or self._last() in (*")]*&",))
        self.groups.append(_Group(bracket, place, wraps, place + 1, place + 1))
        self.opened[bracket] += 1
        self.pieces.append(bracket)

    def _close(self, group: _Group, bracket: str) -> None:
        opening = _CLOSES[bracket]
        if not self.opened[opening] or (bracket == ">" and group.opened_by != "<"):
            self.pieces.append(bracket)
            return
        closed = self._pop()
        while closed.opened_by != opening:
            closed = self._pop()
        around = self.groups[-1]
        self.pieces.append(bracket)
        if bracket == ">":
            around.has_template = True
        elif bracket == ")" and not closed.holds_function:
            around.arguments = closed.start
            around.count = closed.commas + (len(self.pieces) > closed.start + 2)

    def _pop(self) -> _Group:
        group = self.groups.pop()
        self.opened[group.opened_by] -= 1
        if group.holds_function:
            self._drop_arguments(group)
        self._place_const(group)
        return group

    def _close_closure(self, group: _Group, text: str) -> None:
        """Close ``{lambda(int)#1}``, which other profilers write ``[lambda(int) (instance 1)]``."""
        number = "".join(filter(str.isdigit, text))
        if group.opened_by in ("[", "{"):
            group.arguments = -1
            self._pop()
            self.pieces[group.start] = "{"
        self.pieces.append(f"#{number}}}")

    def _drop_arguments(self, group: _Group) -> bool:
        """Skip the arguments just read and the return type, if the function is a template."""
        start, group.arguments = group.arguments, -1
        if start < 0 or not group.has_template:
            return False
        self.skips[start] = len(self.pieces)
        if group.name > group.element:
            self.skips[group.element] = group.name
        return True

    def _drop_cast(self, group: _Group) -> None:
        """Skip the type in ``(unsigned long)3`` and ``(int)-1``."""
        end = len(self.pieces) - (self._last() == "-")
        begins_with_bracket = self.pieces[group.element : group.element + 1] == ["("]
        if begins_with_bracket and self.pieces[end - 1] == ")":
            self.skips[group.element] = end

    def _place_const(self, group: _Group) -> None:
        if group.const:
            self.pieces.append("const")
        group.const = False

    def _last(self) -> str:
        return self.pieces[-1] if self.pieces else ""

    def _after_name(self) -> bool:
        last = self._last()
        return last.startswith("operator") or last[-1:] in (*">}",) or bool(_IN_A_WORD.match(last))

    def _kept(self) -> Iterator[str]:
        """Pieces that are not skipped, words apart from each other."""
        place, last = 0, ""
        while place < len(self.pieces):
            if place in self.skips:
                place = self.skips[place]
                continue
            piece = self.pieces[place]
            if _IN_A_WORD.match(last[-1:]) and _IN_A_WORD.match(piece):
                yield " "
            yield piece
            place, last = place + 1, piece
