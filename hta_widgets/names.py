"""Shorten the names of kernels and operators, which run to thousands of characters."""

from __future__ import annotations

ELLIPSIS = "…"


def short_name(name: str, width: int = 48) -> str:
    """Name without ``void`` and argument list, cut in the middle to at most `width` characters.

    Examples
    --------
    >>> short_name("void at::native::add<float>(int, float)")
    'at::native::add<float>'
    >>> short_name("Memcpy HtoD (Pageable -> Device)")
    'Memcpy HtoD (Pageable -> Device)'
    >>> short_name("a_very_long_kernel_name", 11)
    'a_ver…_name'
    """
    return cut_in_the_middle(_without_arguments(name.removeprefix("void ")), width)


def cut_in_the_middle(text: str, width: int) -> str:
    """Keep the beginning and the end of a text that is longer than `width` characters."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}{ELLIPSIS}{text[len(text) - tail :]}"


def _without_arguments(name: str) -> str:
    """Cut the list of arguments that closes a C++ signature."""
    if not name.endswith(")"):
        return name
    depth = 0
    for position in range(len(name) - 1, 0, -1):
        depth += (name[position] == ")") - (name[position] == "(")
        if depth == 0:
            return name if name[position - 1] == " " else name[:position]
    return name
