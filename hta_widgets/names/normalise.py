"""Match kernels across profilers, which spell their names differently.

A name passes through four stages; each removes something that profilers write differently:

1. demangle, and drop what follows the function (``.kd``, ``[clone …]``)
2. drop the signature that old versions of Triton append (``_0d1d2de``)
3. split into tokens that spell equal things equally: ``false`` is ``0``, ``4ul`` is ``4``,
   ``<unnamed>`` is ``{anonymous}``
4. read the tokens and skip the types of literals, the arguments of templates, and return types
   (`name_reading`)

Argument types are dropped because Nsight Systems writes ``T2`` for those that depend on a template.
Of the 41 kernels in a real export, 7 have equal mangled and demangled names if argument types are
kept, and all 41 if they are dropped. No two kernels of one job in the real traces of the tests
become equal.
"""

from __future__ import annotations

import re

from hta_widgets.names.demangling import demangled
from hta_widgets.names.name_reading import Reading

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

    Triton's ``kernel_suffix`` wrote ``c`` behind an argument that is 1, ``d`` and ``e`` behind one
    that is divisible by 16 and 8. A suffix without such letters, or whose numbers do not count up
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
