"""Replace the parameters of templates by their arguments.

A part that is repeated by number (``S6_``) may contain a template parameter, and then means the
parameter of the function that repeats it. Parameters therefore stay in the text as marks, and are
replaced when the function they belong to has been read::

    _Z 1f I i E v T_ S0_      f<int>(int, int)
                  │  └─ the same mark again
                  └─ mark of parameter 0

The marks are control characters, which no readable name contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Argument: TypeAlias = "str | list[str]"
"""Text of an argument, or the texts of a pack's members."""

MOST_CHARACTERS = 2**22
"""Limit of the text built for one symbol: each ``S…_`` may double it."""

_PARAMETER_BEGINS, _PARAMETER_ENDS = "\1", "\2"
_PATTERN_BEGINS, _PATTERN_ENDS = "\3", "\4"
_NOTHING = "\5"
"""Mark of an empty pack; it is removed together with its comma."""

_PARAMETER = re.compile(rf"{_PARAMETER_BEGINS}(\d+){_PARAMETER_ENDS}( const)?(&{{0,2}})")
_PATTERN = f"{_PATTERN_BEGINS}([^{_PATTERN_BEGINS}{_PATTERN_ENDS}]*){_PATTERN_ENDS}"
_MARK = re.compile(f"{_PATTERN}|{_PARAMETER.pattern}")
_NOTHING_IN_A_LIST = re.compile(f", {_NOTHING}|{_NOTHING}, |{_NOTHING}")


class UnreadableError(Exception):
    """The name breaks the grammar, uses a part of it that is not supported, or is too long."""


def parameter(number: int) -> str:
    """Return the mark of a template's parameter."""
    return f"{_PARAMETER_BEGINS}{number}{_PARAMETER_ENDS}"


def per_member(pattern: str) -> str:
    """Return the mark of a pattern that is repeated for each member of a pack."""
    return f"{_PATTERN_BEGINS}{pattern}{_PATTERN_ENDS}"


def with_arguments(name: str, arguments: Sequence[Argument]) -> str:
    """Append arguments to the name of a template."""
    inside = ", ".join(_texts(arguments))
    space = " " if name.endswith("<") else ""
    return f"{name}{space}<{inside}{' ' if inside.endswith('>') else ''}>"


def in_lambda(text: str) -> str:
    """Write the parameters of a generic lambda as libstdc++ does: ``auto:1``."""
    return _PARAMETER.sub(lambda mark: f"auto:{int(mark[1]) + 1}{mark[2] or ''}{mark[3]}", text)


def resolved(text: str, arguments: Sequence[Argument]) -> str:
    """Replace the marks of parameters by arguments.

    Raises `UnreadableError` if there are too few arguments, or the text would become too long.
    """
    _check_length(text, arguments)
    text = _MARK.sub(lambda mark: _apart(_in_place_of(mark, arguments), mark), text)
    return _NOTHING_IN_A_LIST.sub("", text)


def _texts(arguments: Sequence[Argument]) -> Iterator[str]:
    for argument in arguments:
        yield from [argument] if isinstance(argument, str) else argument


def _check_length(text: str, arguments: Sequence[Argument]) -> None:
    members = max((len(each) for each in arguments if isinstance(each, list)), default=0)
    inserted = text.count(_PARAMETER_BEGINS) * sum(map(len, _texts(arguments)))
    if (len(text) + inserted) * (members + 1) > MOST_CHARACTERS:
        raise UnreadableError


def _apart(text: str, mark: re.Match[str]) -> str:
    """Write ``> >`` instead of ``>>``, as libstdc++ does."""
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
    """Add qualifiers to a type that may already have them; ``&&`` and ``&`` collapse to ``&``."""
    if const and not text.endswith((const, "&")):
        text += const
    if not text.endswith("&"):
        return text + reference
    return text[:-1] if text.endswith("&&") and reference == "&" else text
