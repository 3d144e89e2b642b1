"""Read names and functions, of which a mangled symbol consists.

=============================  ====================  ==============================
rule of the ABI                begins with           means
=============================  ====================  ==============================
unscoped name                  digit, ``St``, ``S``  ``add``, ``std::add``
nested name                    ``N`` … ``E``         ``at::native::add``
local name                     ``Z`` … ``E``         ``f()::{lambda(int)#1}``
template arguments             ``I`` … ``E``         ``<float, 2>`` behind any name
=============================  ====================  ==============================
"""

from __future__ import annotations

import re

from hta_widgets.names.demangling.templates import (
    UnreadableError,
    in_lambda,
    resolved,
    with_arguments,
)
from hta_widgets.names.demangling.types import HERE, Name, Types, plain
from hta_widgets.names.demangling.words import OPERATORS

_ANONYMOUS = re.compile(r"_GLOBAL_[._$]N")
_DISCRIMINATOR = re.compile(r"(__\d+_|_\d)?")
_CLONE = re.compile(r"\.[A-Za-z_]\w*(?:\.\d+)*|\.\d+")
_CLONES = re.compile(rf"({_CLONE.pattern})*")
_CONTROL = re.compile(r"[\0-\x1f]")


class Symbol(Types):
    """One mangled name."""

    def text(self) -> str:
        """Return the demangled name.

        Raises
        ------
        UnreadableError
            If the name cannot be read to its end, within the limits.
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
