"""Put the arguments of a template where its parameters are named.

What a symbol repeats by number (``S6_``) may name a template's parameter, and then means that of
the function in which it is repeated. So parameters stand as marks in the text until the function
that they belong to has been read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Argument: TypeAlias = "str | list[str]"
"""Text of an argument, or texts of the members of a pack."""

MOST_CHARACTERS = 2**22
"""Text that is put together for one symbol: a short one can stand for an endless name."""

_NOTHING = "\5"
_PARAMETER = re.compile("\1(\\d+)\2( const)?(&{0,2})")
_MARK = re.compile(f"\3([^\3\4]*)\4|{_PARAMETER.pattern}")
_NOTHING_IN_A_LIST = re.compile(f", {_NOTHING}|{_NOTHING}, |{_NOTHING}")


class UnreadableError(Exception):
    """The name is not of the grammar, of a part of it that is not read, or too long."""


def parameter(number: int) -> str:
    """Mark a template's parameter."""
    return f"\1{number}\2"


def per_member(pattern: str) -> str:
    """Mark a pattern that stands for one text per member of the pack that it names."""
    return f"\3{pattern}\4"


def with_arguments(name: str, arguments: Sequence[Argument]) -> str:
    """Name of a template with its arguments."""
    inside = ", ".join(_texts(arguments))
    space = " " if name.endswith("<") else ""
    return f"{name}{space}<{inside}{' ' if inside.endswith('>') else ''}>"


def in_lambda(text: str) -> str:
    """Name the parameters of a lambda's own template as compilers do."""
    return _PARAMETER.sub(lambda mark: f"auto:{int(mark[1]) + 1}{mark[2] or ''}{mark[3]}", text)


def resolved(text: str, arguments: Sequence[Argument]) -> str:
    """Put the arguments in the places of the parameters.

    Raises
    ------
    UnreadableError
        If there are too few, or the text became too long.
    """
    _check_length(text, arguments)
    text = _MARK.sub(lambda mark: _apart(_in_place_of(mark, arguments), mark), text)
    return _NOTHING_IN_A_LIST.sub("", text)


def _texts(arguments: Sequence[Argument]) -> Iterator[str]:
    for argument in arguments:
        yield from [argument] if isinstance(argument, str) else argument


def _check_length(text: str, arguments: Sequence[Argument]) -> None:
    members = max((len(each) for each in arguments if isinstance(each, list)), default=0)
    inserted = text.count("\1") * sum(map(len, _texts(arguments)))
    if (len(text) + inserted) * (members + 1) > MOST_CHARACTERS:
        raise UnreadableError


def _apart(text: str, mark: re.Match[str]) -> str:
    """Keep closing brackets apart, as compilers do."""
    is_last = mark.string.startswith(">", mark.end())
    return f"{text} " if is_last and text.endswith(">") else text


def _in_place_of(mark: re.Match[str], arguments: Sequence[Argument]) -> str:
    if mark[1] is None:
        argument = _argument(mark[2], arguments)
        whole = ", ".join(argument) if isinstance(argument, list) else argument
        return _qualified(whole or _NOTHING, mark[3], mark[4])
    numbers = [found[1] for found in _PARAMETER.finditer(mark[1])]
    packs = [each for each in (_argument(n, arguments) for n in numbers) if isinstance(each, list)]
    if not packs:
        raise UnreadableError
    members = [_member(mark[1], arguments, place) for place in range(min(map(len, packs)))]
    return ", ".join(members) or _NOTHING


def _member(pattern: str, arguments: Sequence[Argument], place: int) -> str:
    of_member = [each if isinstance(each, str) else each[place : place + 1] for each in arguments]
    return _PARAMETER.sub(lambda mark: _in_pattern(mark, of_member), pattern)


def _in_pattern(mark: re.Match[str], arguments: Sequence[Argument]) -> str:
    argument = _argument(mark[1], arguments)
    return _qualified("".join(argument), mark[2], mark[3])


def _argument(number: str, arguments: Sequence[Argument]) -> Argument:
    if int(number) >= len(arguments):
        raise UnreadableError
    return arguments[int(number)]


def _qualified(text: str, const: str | None, reference: str) -> str:
    """Qualify a type that may be so already: of two references the lesser stays."""
    if const and not text.endswith((const, "&")):
        text += const
    if not text.endswith("&"):
        return text + reference
    return text[:-1] if text.endswith("&&") and reference == "&" else text
