"""Mangled C++ names (``_Z…``) as a reader, and a PyTorch trace, writes them."""

from __future__ import annotations

import re
from functools import lru_cache

from hta_widgets.demangling.symbols import Symbol
from hta_widgets.demangling.templates import UnreadableError

LONGEST = 2**14
"""Longer names stay as they are."""

_MANGLED = re.compile(r"_Z[\w.$]+")


def is_mangled(name: str) -> bool:
    """Tell whether a name looks like a mangled one."""
    return name.startswith("_Z") and _MANGLED.fullmatch(name) is not None


@lru_cache(maxsize=2**14)
def demangled(name: str) -> str:
    """Demangle a name of the Itanium C++ ABI; one that is none, or cannot be read, stays as it is.

    The text is that of ``__cxa_demangle`` in libstdc++, which PyTorch traces hold. Names come from
    files of unknown origin: the work is bounded, whatever the name.

    Examples
    --------
    >>> demangled("_ZN2at6native13reduce_kernelILi512EfEEvPT0_")
    'void at::native::reduce_kernel<512, float>(float*)'
    >>> demangled("volta_sgemm_128x64_nn")
    'volta_sgemm_128x64_nn'
    """
    if len(name) > LONGEST or not is_mangled(name):
        return name
    try:
        return Symbol(name).text()
    except (UnreadableError, RecursionError):
        return name
