"""Read types, template arguments, and the expressions among them.

A mangled type is read from the outside in, while C++ writes pointers to functions and arrays around
the declared name. `HERE`, here ``@``, marks that place while the text grows::

    PFviE                        A2_Pf
     FviE    void @(int)            Pf    float*
    P        void (*@)(int)      A2_      float* @[2]
             void (*)(int)                float* [2]
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from hta_widgets.names.demangling.cursor import Cursor
from hta_widgets.names.demangling.templates import (
    Argument,
    UnreadableError,
    parameter,
    per_member,
    with_arguments,
)
from hta_widgets.names.demangling.words import (
    BINARY,
    BUILT_IN,
    LITERAL_SUFFIX,
    POINTERS,
    QUALIFIERS,
    UNARY,
)

HERE = "\0"
"""Place of the declared name in the text of a type, where that is not its end."""

_LITERAL = re.compile(r"(n?)([0-9a-f]*)E")


class Name(NamedTuple):
    """A name that has been read.

    Attributes
    ----------
    text : str
    arguments : list, optional
        Template arguments at its end.
    qualifiers : str
        Those of a member function, such as ``const``.
    returns : bool
        A return type follows if it is a template; constructors have none.
    """

    text: str
    arguments: list[Argument] | None = None
    qualifiers: str = ""
    returns: bool = True


class Types(Cursor):
    """The part of the grammar below names; `Symbol` adds names, which contain types again."""

    @abstractmethod
    def name(self) -> Name:
        """Read a name with its template arguments."""

    @abstractmethod
    def part(self) -> str:
        """Read one part of a name, between two ``::``."""

    @abstractmethod
    def encoding(self) -> str:
        """Read a function with its parameters but without its return type, or a variable."""

    @abstractmethod
    def address(self) -> str:
        """Read the function or variable that a pointer points to."""

    def parameters(self) -> str:
        """Read types up to the end of the list."""
        types = []
        while not self.at_end():
            types.append(plain(self.type()))
        if not types:
            raise UnreadableError
        return "" if types == ["void"] else ", ".join(types)

    def type(self) -> str:
        """Read a type, and number it unless it is built in or a repetition."""
        self.descend()
        text = self._built_in()
        if not text:
            reader = self._readers().get(self.peek())
            text, is_new = (reader(), True) if reader else self._named_type()
            if is_new:
                self.remember(text)
        self.ascend()
        return text

    def qualifiers(self) -> str:
        """Read ``const``, ``volatile`` and ``__restrict``."""
        codes = ""
        while self.peek() in QUALIFIERS:
            codes += self.take(1)
        return "".join(QUALIFIERS[code] for code in reversed(codes))

    def reference(self) -> str:
        """Read the reference qualifier of a member function."""
        return " &" if self.accept("R") else " &&" if self.accept("O") else ""

    def template_arguments(self) -> list[Argument]:
        """Read template arguments; a pack becomes a list."""
        self.expect("I")
        arguments: list[Argument] = []
        while not self.accept("E"):
            is_pack = self.accept("J")
            arguments.append(self._pack() if is_pack else self._template_argument())
        return arguments

    def template_parameter(self) -> str:
        """Read a template parameter, and return its mark."""
        self.expect("T")
        return parameter(self.count() - 1)

    def _readers(self) -> dict[str, Callable[[], str]]:
        """Readers of types by first letter."""
        return {
            **dict.fromkeys(QUALIFIERS, self._qualified),
            **dict.fromkeys(POINTERS, self._pointer),
            "F": self._function,
            "A": self._array,
            "M": self._member_pointer,
            "D": self._special,
            "T": self._of_parameter,
        }

    def _built_in(self) -> str:
        for size in (1, 2, 5):
            text = BUILT_IN.get(self.peek(size))
            if text:
                self.take(size)
                return text
        return ""

    def _named_type(self) -> tuple[str, bool]:
        is_repeated = self.peek() == "S" and self.peek(2) != "St"
        name = self.name()
        return name.text, not is_repeated or name.arguments is not None

    def _qualified(self) -> str:
        qualifiers = self.qualifiers()
        if self.peek() == "F":
            return self._function() + qualifiers
        return declared(self.type(), qualifiers)

    def _pointer(self) -> str:
        mark = POINTERS[self.take(1)]
        return pointer(self.type(), mark)

    def _function(self) -> str:
        self.expect("F")
        self.accept("Y")
        returned = self.type()
        text = f"{HERE}({self.parameters()}){self.reference()}"
        self.expect("E")
        return returned.replace(HERE, text) if HERE in returned else f"{returned} {text}"

    def _array(self) -> str:
        self.expect("A")
        is_number = self.peek().isdigit()
        size = self.number() if is_number else "" if self.peek() == "_" else self._expression()
        self.expect("_")
        element = self.type()
        text = f"{HERE}[{size}]"
        return element.replace(HERE, text) if HERE in element else f"{element} {text}"

    def _member_pointer(self) -> str:
        self.expect("M")
        of_class = plain(self.type())
        return pointer(self.type(), f"{of_class}::*", space=" ")

    def _special(self) -> str:
        code = self.take(2)
        if code == "Dp":
            return per_member(plain(self.type()))
        if code in ("Dt", "DT"):
            text = f"decltype ({self._expression()})"
            self.expect("E")
            return text
        if code == "Dv":
            size = self.number()
            self.expect("_")
            return f"{plain(self.type())} __vector({size})"
        raise UnreadableError

    def _of_parameter(self) -> str:
        text = self.template_parameter()
        if self.peek() != "I":
            return text
        self.remember(text)
        return with_arguments(text, self.template_arguments())

    def _pack(self) -> list[str]:
        members = []
        while not self.accept("E"):
            members.append(self._template_argument())
        return members

    def _template_argument(self) -> str:
        if self.peek() == "L":
            return self._expression()
        if self.accept("X"):
            text = self._expression()
            self.expect("E")
            return text
        return plain(self.type())

    def _expression(self) -> str:
        self.descend()
        if self.accept("L"):
            text = self._literal()
        elif self.peek() == "T":
            text = self.template_parameter()
        else:
            text = self._operation(self.take(2))
        self.ascend()
        return self.written(text)

    def _operation(self, code: str) -> str:
        if code == "ad" and self.accept("L_Z"):
            text = self.address()
            self.expect("E")
            return text
        if code in UNARY:
            return UNARY[code] + self._operand()
        if code in BINARY:
            text = f"{self._operand()}{BINARY[code]}{self._operand()}"
            return f"({text})" if code == "gt" else text
        if code == "st":
            return f"sizeof ({plain(self.type())})"
        if code == "fp":
            return f"{{parm#{self.count()}}}"
        if code == "sr":
            return self._member()
        raise UnreadableError

    def _member(self) -> str:
        """Read a member of a type: ``T::value``."""
        text = f"{plain(self.type())}::{self.part()}"
        return with_arguments(text, self.template_arguments()) if self.peek() == "I" else text

    def _operand(self) -> str:
        is_simple = self.peek(2) in ("fp", "sr")
        text = self._expression()
        return text if is_simple else f"({text})"

    def _literal(self) -> str:
        if self.accept("_Z"):
            text = self.encoding()
            self.expect("E")
            return text
        code = self.peek()
        kind = plain(self.type())
        sign, digits = self.match(_LITERAL).groups()
        if code == "b" and digits in ("0", "1"):
            return ("false", "true")[int(digits)]
        value = f"-{digits}" if sign else digits
        if code in LITERAL_SUFFIX:
            return value + LITERAL_SUFFIX[code]
        return f"({kind})[{value}]" if code in "fde" else f"({kind}){value}"


def plain(text: str) -> str:
    """Text of a type in which no name is declared."""
    return text.replace(HERE, "")


def declared(text: str, mark: str) -> str:
    """Put a mark in front of the declared name."""
    return text.replace(HERE, mark + HERE) if HERE in text else text + mark


def pointer(text: str, mark: str, space: str = "") -> str:
    """Return a pointer or reference to a type; ``&`` to ``&&`` collapses to ``&``."""
    if mark in ("&", "&&") and text.endswith("&"):
        return text[:-1] if text.endswith("&&") and mark == "&" else text
    if f"{HERE}(" in text:
        return text.replace(HERE, f"({mark}{HERE})")
    if f"{HERE}[" in text:
        return text.replace(HERE, f"({mark}{HERE}) ")
    return declared(text, space + mark)
