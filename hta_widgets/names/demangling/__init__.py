"""Demangle C++ names (``_Z…``) of the Itanium C++ ABI, as found in PyTorch traces.

The ABI defines the grammar: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling. It is read
by recursive descent, one method per rule: `cursor.Cursor` holds the position in the name and its
numbered parts, `symbols.Symbol` reads types and names with it::

    types, template arguments, expressions        PKf        float const*
    names and functions                           N2at3addE  at::add

A function template, piece by piece::

    _Z N 2at3add I f E E v P T_
       │         │       │ └─┴─ argument: pointer to the first template argument
       │         │       └─ return type, which only templates have
       │         └─ template arguments: float
       └─ nested name: at::add            void at::add<float>(float*)
"""

from __future__ import annotations

import re
from functools import lru_cache

from hta_widgets.names.demangling.symbols import Symbol
from hta_widgets.names.demangling.templates import UnreadableError

LONGEST = 2**14
"""Longer names are returned unchanged."""

_MANGLED = re.compile(r"_Z[\w.$]+")


def is_mangled(name: str) -> bool:
    """Whether a name looks mangled."""
    return name.startswith("_Z") and _MANGLED.fullmatch(name) is not None


def demangled(name: str) -> str:
    """Demangle a name; return it unchanged if it is not mangled or cannot be read.

    The result is that of ``__cxa_demangle`` in libstdc++, which Kineto calls. Names come from files
    of unknown origin, and a short one can expand to a text of any length, so depth and length are
    bounded.

    Examples
    --------
    >>> demangled("_ZN2at6native13reduce_kernelILi512EfEEvPT0_")
    'void at::native::reduce_kernel<512, float>(float*)'
    >>> demangled("volta_sgemm_128x64_nn")
    'volta_sgemm_128x64_nn'
    """
    return _demangled(name) if len(name) <= LONGEST and is_mangled(name) else name


@lru_cache(maxsize=2**12)
def _demangled(name: str) -> str:
    try:
        return Symbol(name).text()
    except (UnreadableError, RecursionError):
        return name
