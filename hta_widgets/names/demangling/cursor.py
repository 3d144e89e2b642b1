"""Position in a mangled name, and the parts that later ones may refer to.

Mangled names do not repeat themselves: a part that comes again is written as its number in base 36,
``S_``, ``S0_``, ``S1_``, … The reader has to number the same parts in the same order as the
compiler::

    _Z N 2at 1f E   R   N S_ 6Tensor E   S1_      at::f(at::Tensor&, at::Tensor&)
         │          │   │ └─ at      │   └─ at::Tensor&
         │          │   └─────┬──────┘
         └─ S_: at  │         └─ S0_: at::Tensor
                    └─ S1_: at::Tensor&

A part is numbered when it is complete: ``R`` begins before ``N``, but its type is complete later.
"""

from __future__ import annotations

import re

from hta_widgets.names.demangling.templates import MOST_CHARACTERS, UnreadableError

BUILT_IN = {
    "v": "void",
    "w": "wchar_t",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "z": "...",
    "Da": "auto",
    "Dc": "decltype(auto)",
    "Dd": "decimal64",
    "De": "decimal128",
    "Df": "decimal32",
    "Dh": "half",
    "Di": "char32_t",
    "Dn": "decltype(nullptr)",
    "Ds": "char16_t",
    "Du": "char8_t",
    "DF16_": "_Float16",
    "DF16b": "std::bfloat16_t",
}

LITERAL_SUFFIX = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}

STANDARD = {
    "Sa": "std::allocator",
    "Sb": "std::basic_string",
    "Ss": "std::string",
    "Si": "std::istream",
    "So": "std::ostream",
    "Sd": "std::iostream",
}

QUALIFIERS = {"r": " __restrict", "V": " volatile", "K": " const"}

POINTERS = {"P": "*", "R": "&", "O": "&&"}

UNARY = {
    "ps": "+",
    "ng": "-",
    "ad": "&",
    "de": "*",
    "co": "~",
    "nt": "!",
}

BINARY = {
    "pl": "+",
    "mi": "-",
    "ml": "*",
    "dv": "/",
    "rm": "%",
    "an": "&",
    "or": "|",
    "eo": "^",
    "ls": "<<",
    "rs": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "ge": ">=",
    "ss": "<=>",
    "aa": "&&",
    "oo": "||",
}

OPERATORS = {
    **UNARY,
    **BINARY,
    "nw": " new",
    "na": " new[]",
    "dl": " delete",
    "da": " delete[]",
    "aS": "=",
    "pL": "+=",
    "mI": "-=",
    "mL": "*=",
    "dV": "/=",
    "rM": "%=",
    "aN": "&=",
    "oR": "|=",
    "eO": "^=",
    "lS": "<<=",
    "rS": ">>=",
    "pp": "++",
    "mm": "--",
    "cm": ",",
    "pm": "->*",
    "pt": "->",
    "cl": "()",
    "ix": "[]",
    "qu": "?",
}


DEEPEST = 100
"""Names nested more deeply are not read."""

_NUMBER = re.compile(r"\d{1,6}")
_SEQUENCE = re.compile(r"([0-9A-Z]{0,6})_")


class Cursor:
    """Position in a mangled name; it starts after the ``_Z``."""

    def __init__(self, mangled: str) -> None:
        self._mangled = mangled
        self._at = len("_Z")
        self._seen: list[str] = []
        self._depth = 0
        self._written = 0

    @property
    def rest(self) -> str:
        """The part that has not been read."""
        return self._mangled[self._at :]

    def peek(self, size: int = 1) -> str:
        """Return the next characters without reading them."""
        return self._mangled[self._at : self._at + size]

    def at_end(self) -> bool:
        """Whether the list of parameters ends here."""
        return self.peek() in ("", "E", ".")

    def take(self, size: int) -> str:
        """Read the given number of characters."""
        text = self.peek(size)
        if len(text) < size:
            raise UnreadableError
        self._at += size
        return text

    def accept(self, text: str) -> bool:
        """Read a text if it comes next."""
        if not self._mangled.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def expect(self, text: str) -> None:
        """Read a text that must come next."""
        if not self.accept(text):
            raise UnreadableError

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Read the match of a pattern, which must come next."""
        found = pattern.match(self._mangled, self._at)
        if not found:
            raise UnreadableError
        self._at = found.end()
        return found

    def number(self) -> str:
        """Read digits."""
        return self.match(_NUMBER)[0]

    def count(self, base: int = 10) -> int:
        """Read a sequence number, of which ``_`` is 1, ``0_`` is 2 and ``1_`` is 3."""
        digits = self.match(_SEQUENCE)[1]
        try:
            return int(digits, base) + 2 if digits else 1
        except ValueError:
            raise UnreadableError from None

    def remember(self, text: str) -> None:
        """Number a part, so that ``S…_`` can refer to it."""
        self._seen.append(self.written(text))

    def substitution(self) -> str:
        """Read ``S…_``, a reference to an earlier part, or an abbreviation such as ``Ss``."""
        text = STANDARD.get(self.peek(2))
        if text:
            self._at += 2
            return text
        self.expect("S")
        number = self.count(base=36) - 1
        if number >= len(self._seen):
            raise UnreadableError
        return self.written(self._seen[number])

    def written(self, text: str) -> str:
        """Return the text after counting it towards the limit."""
        self._written += len(text)
        if self._written > MOST_CHARACTERS:
            raise UnreadableError
        return text

    def descend(self) -> None:
        """Go one level deeper."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableError

    def ascend(self) -> None:
        """Go one level back up."""
        self._depth -= 1
