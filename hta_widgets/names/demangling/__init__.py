"""Mangled C++ names (``_Z…``) as a reader, and a PyTorch trace, writes them."""

from __future__ import annotations

import re
from functools import lru_cache

from hta_widgets.names.demangling.symbols import Symbol
from hta_widgets.names.demangling.templates import UnreadableError

LONGEST = 2**14
"""Longer names stay as they are."""

_MANGLED = re.compile(r"_Z[\w.$]+")


def is_mangled(name: str) -> bool:
    """Tell whether a name looks like a mangled one."""
    return name.startswith("_Z") and _MANGLED.fullmatch(name) is not None


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
    return _demangled(name) if len(name) <= LONGEST and is_mangled(name) else name


@lru_cache(maxsize=2**12)
def _demangled(name: str) -> str:
    try:
        return Symbol(name).text()
    except (UnreadableError, RecursionError):
        return name
