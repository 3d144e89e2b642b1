"""Match kernels across profilers, which spell their names differently.

A name passes through four stages; each removes something that profilers write differently:

1. demangle, and drop what follows the function (``.kd``, ``[clone …]``)
2. drop the signature that old versions of Triton append (``_0d1d2de``)
3. split into tokens that spell equal things equally: ``false`` is ``0``, ``4ul`` is ``4``,
   ``<unnamed>`` is ``{anonymous}``
4. read the tokens and skip the types of literals, the arguments of templates, and return types
   (`Reading`)

Argument types are dropped because Nsight Systems writes ``T2`` for those that depend on a template:
of 41 kernels in a real export, only 7 have equal mangled and demangled names if they are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hta_widgets.names.demangling import demangled

_TRITON_SIGNATURE = re.compile(r"_(0[cde]*1[cde\d]*)$")
_TRITON_HINTS = re.compile(r"[cde]*")


def normalised_kernel_name(name: str) -> str:
    """Reduce a kernel's name to what all profilers agree on, so that it can be compared.

    Names of one kernel give equal results, whether mangled or not, with or without spaces, return
    type, types of literals, the hash of an anonymous namespace or Triton's signature, and with
    ``const`` before or behind the type. The arguments of function templates are dropped, since some
    profilers write ``T1`` for their types; only the number of the kernel's own arguments stays.
    This also matches a kernel across versions of a library that renamed the type of an argument.

    Different kernels of a job give different results, except for overloads of one function template
    with equal template arguments and equally many arguments, and for the specialisations that old
    versions of Triton number.

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
    return text if text.isidentifier() else Reading().of(text) or name


def _without_triton_signature(name: str) -> str:
    """Drop a suffix such as ``_0d1d2d34de``: each argument's number, and hints about its value.

    Triton's ``kernel_suffix`` wrote ``c`` after an argument that is 1, ``d`` and ``e`` after one
    divisible by 16 and by 8. A suffix without such letters, or whose numbers do not count up
    from 0, belongs to the name.
    """
    found = _TRITON_SIGNATURE.search(name)
    if not found or not any(hint in found[1] for hint in "cde"):
        return name
    place, argument = 0, 0
    while found[1].startswith(str(argument), place):
        hints = _TRITON_HINTS.match(found[1], place + len(str(argument)))
        place, argument = (hints.end() if hints else place), argument + 1
    return name[: found.start()] if place == len(found[1]) else name


DEEPEST = 512
"""Names with more deeply nested brackets are compared verbatim, except for spaces."""

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
_IN_A_WORD = re.compile(r"[\w$.@]")


@dataclass
class _Group:
    """A bracket that has been opened and not yet closed. Places are indexes into the pieces."""

    opened_by: str
    """The opening bracket; empty for the whole name."""
    start: int
    """Place of the opening bracket."""
    holds_function: bool
    """The group may contain a whole function, as ``(f<int>(float))`` does, rather than being one
    function's list of arguments."""
    element: int
    name: int
    """Places where the text since the last comma begins, and the last name in it."""
    has_template: bool = False
    """That name has template arguments."""
    arguments: int = -1
    """Place of the argument list that ends at the last piece, -1 if none does."""
    count: int = 0
    """Number of arguments in that list."""
    commas: int = 0
    """Number of commas so far."""
    const: bool = False
    """The element began with ``const``, which is to be placed behind the type."""


@dataclass
class Reading:
    """Reads a demangled name, without what profilers write differently.

    Its tokens are read once, from left to right, into a list of pieces, and ranges of pieces to
    skip are noted: the types of literals, the arguments of templates, return types. Pieces cannot
    be dropped at once: only the ``4`` behind ``(int)`` shows that it is the type of a literal, and
    only the argument list shows that ``void`` is a return type::

        name     void f<(int)4, A<char *>>(int, T2)

        pieces   void f < ( int ) 4 , A < char * > > ( int , T2 )
        skips    ──┬─     ───┬───                    ─────┬──────
                   │         └ type of a literal          └ arguments of a template: 2
                   └ return type

        result   f<4,A<char*>>(2)
    """

    pieces: list[str] = field(default_factory=list)
    """Tokens read so far."""
    skips: dict[int, int] = field(default_factory=dict)
    """First place to skip, to the first place after it that is kept."""
    groups: list[_Group] = field(default_factory=lambda: [_Group("", -1, True, 0, 0)])
    """Open brackets, outermost first; the first is the whole name."""
    opened: Counter[str] = field(default_factory=Counter)
    """Number of open brackets of each kind, to ignore closing ones that match nothing."""

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
        """Add a name, a keyword or a number; one after ``::`` continues the name before it."""
        text = "".join(text.split()) if text.startswith("operator") else _WORDS.get(text, text)
        if self._last() != "::":
            group.name, group.has_template = len(self.pieces), False
        if text.isdigit() and group.opened_by == "<":
            self._drop_cast(group)
        self.pieces.append(text)

    def _read_const(self, group: _Group) -> None:
        """Write ``const float*`` as ``float const*``, as demangled names do."""
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
        # "(" after a name, a bracket or a pointer opens its arguments; any other one groups.
        wraps = bracket == "(" and not (self._after_name() or self._last() in (*")]*&",))
        self.groups.append(_Group(bracket, place, wraps, place + 1, place + 1))
        self.opened[bracket] += 1
        self.pieces.append(bracket)

    def _close(self, group: _Group, bracket: str) -> None:
        opening = _CLOSES[bracket]
        # A ">" inside other brackets compares: enable_if<(N > 0)>.
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
        """Close ``{lambda(int)#1}``, which Nsight Systems writes ``[lambda(int) (instance 1)]``."""
        number = "".join(filter(str.isdigit, text))
        if group.opened_by in ("[", "{"):
            group.arguments = -1
            self._pop()
            self.pieces[group.start] = "{"
        self.pieces.append(f"#{number}}}")

    def _drop_arguments(self, group: _Group) -> bool:
        """Skip the arguments just read, and the return type, if they are a template's; say so."""
        start, group.arguments = group.arguments, -1
        if start < 0 or not group.has_template:
            return False
        self.skips[start] = len(self.pieces)
        if group.name > group.element:
            self.skips[group.element] = group.name
        return True

    def _drop_cast(self, group: _Group) -> None:
        """Skip the type of a literal: that in ``(unsigned long)3`` and in ``(int)-1``."""
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
        """Pieces that are not skipped, with a space between two words."""
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
