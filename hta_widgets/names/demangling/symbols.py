"""Read the names and functions that make up a mangled symbol, and the types in them.

=============================  ====================  ==============================
rule of the ABI                begins with           means
=============================  ====================  ==============================
unscoped name                  digit, ``St``, ``S``  ``add``, ``std::add``
nested name                    ``N`` … ``E``         ``at::native::add``
local name                     ``Z`` … ``E``         ``f()::{lambda(int)#1}``
template arguments             ``I`` … ``E``         ``<float, 2>`` behind any name
=============================  ====================  ==============================

A mangled type is read from the outside in, while C++ writes pointers to functions and arrays around
the declared name. `HERE`, here ``@``, marks that place while the text grows::

    PFviE                        A2_Pf
     FviE    void @(int)            Pf    float*
    P        void (*@)(int)      A2_      float* @[2]
             void (*)(int)                float* [2]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from hta_widgets.names.demangling.cursor import (
    BINARY,
    BUILT_IN,
    LITERAL_SUFFIX,
    OPERATORS,
    POINTERS,
    QUALIFIERS,
    UNARY,
    Cursor,
)
from hta_widgets.names.demangling.templates import (
    Argument,
    UnreadableError,
    in_lambda,
    parameter,
    per_member,
    resolved,
    with_arguments,
)

HERE = "\0"
"""Place of the declared name in the text of a type, if it is not at the end."""

_LITERAL = re.compile(r"(n?)([0-9a-f]*)E")
_ANONYMOUS = re.compile(r"_GLOBAL_[._$]N")
_DISCRIMINATOR = re.compile(r"(__\d+_|_\d)?")
_CLONE = re.compile(r"\.[A-Za-z_]\w*(?:\.\d+)*|\.\d+")
_CLONES = re.compile(rf"({_CLONE.pattern})*")
_CONTROL = re.compile(r"[\0-\x1f]")


class Name(NamedTuple):
    """A name that has been read."""

    text: str
    arguments: list[Argument] | None = None
    """Template arguments at its end."""
    qualifiers: str = ""
    """Qualifiers of a member function, such as ``const``."""
    returns: bool = True
    """Whether a return type follows if it is a template; constructors have none."""


class Symbol(Cursor):
    """One mangled name."""

    def text(self) -> str:
        """Return the demangled name.

        Raises `UnreadableError` if the name cannot be read to its end, within the limits.
        """
        text = self._whole()
        if _CONTROL.search(text) or not _CLONES.fullmatch(self.rest):
            raise UnreadableError
        return text + "".join(f" [clone {clone}]" for clone in _CLONE.findall(self.rest))

    def address(self) -> str:
        """Read what a pointer points to; parameters of member functions are left out."""
        name = self.name()
        signature = "" if self.at_end() else self._signature(name)[1]
        is_plain = not signature or ("::" in name.text and name.arguments is None)
        return f"&{name.text}" if is_plain else f"&({name.text}{signature})"

    def encoding(self) -> str:
        """Read a function with its parameters but without its return type, or a variable."""
        name = self.name()
        if self.at_end():
            return self.written(name.text + name.qualifiers)
        return self.written(name.text + self._signature(name)[1])

    def _whole(self) -> str:
        """Read a function with its return type, or a variable."""
        name = self.name()
        if self.at_end():
            return name.text + name.qualifiers
        returned, text = self._signature(name)
        text = name.text + text
        if HERE in returned:
            return self.written(returned.replace(HERE, text))
        return f"{returned} {text}".lstrip()

    def _signature(self, name: Name) -> tuple[str, str]:
        """Read the return type, which only function templates have, and the parameters."""
        is_template = name.arguments is not None
        returned = self.type() if is_template and name.returns else ""
        text = f"({self.parameters()}){name.qualifiers}"
        if name.arguments is None:
            return returned, text
        return resolved(returned, name.arguments), resolved(text, name.arguments)

    def name(self) -> Name:
        """Read a name with its template arguments."""
        self.descend()
        if self.accept("N"):
            name = self._nested_name()
        elif self.accept("Z"):
            name = self._local_name()
        else:
            name = self._unscoped_name()
        self.ascend()
        return name

    def _unscoped_name(self) -> Name:
        if self.peek() == "S" and self.peek(2) != "St":
            text = self.substitution()
        else:
            text = f"std::{self.part()}" if self.accept("St") else self.part()
            if self.peek() == "I":
                self.remember(text)
        if self.peek() != "I":
            return Name(text)
        arguments = self.template_arguments()
        return Name(self.written(with_arguments(text, arguments)), arguments)

    def _local_name(self) -> Name:
        """Read a name that is declared inside a function."""
        function = self.encoding()
        self.expect("E")
        name = Name("string literal") if self.accept("s") else self.name()
        self.match(_DISCRIMINATOR)
        return name._replace(text=self.written(f"{function}::{name.text}"))

    def _nested_name(self) -> Name:
        """Read a name with its namespaces and classes, and number each of these."""
        qualifiers = self.qualifiers() + self.reference()
        name, is_new = self._beginning()
        while not self.accept("E"):
            if is_new:
                self.remember(name.text)
            is_new = True
            name = self._longer(name)
        return name._replace(text=self.written(name.text), qualifiers=qualifiers)

    def _beginning(self) -> tuple[Name, bool]:
        """Read the first part of a nested name; return it, and whether it needs a number."""
        if self.accept("St"):
            return Name("std"), False
        if self.peek() == "S":
            return Name(self.substitution()), False
        return Name(self.template_parameter() if self.peek() == "T" else self.part()), True

    def _longer(self, name: Name) -> Name:
        """Read the next part of a nested name, or the template arguments of its last part."""
        if self.peek() == "I":
            arguments = self.template_arguments()
            return name._replace(text=with_arguments(name.text, arguments), arguments=arguments)
        if self.peek() in ("C", "D"):
            part = self._constructor(_class_word(name.text))
            return Name(f"{name.text}::{part}", returns=False)
        return Name(f"{name.text}::{self.part()}")

    def _constructor(self, of_class: str) -> str:
        code = self.take(2)
        if code[1] not in "012345":
            raise UnreadableError
        return of_class if code[0] == "C" else f"~{of_class}"

    def part(self) -> str:
        """Read one part of a name."""
        self.accept("L")
        if self.peek().isdigit():
            text = self._identifier()
        elif self.accept("Ul"):
            parameters = in_lambda(self.parameters())
            self.expect("E")
            text = f"{{lambda({parameters})#{self.count()}}}"
        elif self.accept("Ut"):
            text = f"{{unnamed type#{self.count()}}}"
        else:
            text = self._operator()
        while self.accept("B"):
            text += f"[abi:{self._identifier()}]"
        return text

    def _identifier(self) -> str:
        text = self.take(int(self.number()))
        return "(anonymous namespace)" if _ANONYMOUS.match(text) else text

    def _operator(self) -> str:
        code = self.take(2)
        if code == "cv":
            return f"operator {plain(self.type())}"
        if code not in OPERATORS:
            raise UnreadableError
        return f"operator{OPERATORS[code]}"

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
        if self.accept("Tn"):  # its type depends on another argument, as that of ``T (&)(T)`` does
            self.type()
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


def _class_word(text: str) -> str:
    """Name of a class without namespaces and template arguments."""
    depth, word = 0, ""
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == ":" and not depth:
            word = ""
        elif letter not in "<>" and not depth:
            word += letter
    return word


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
