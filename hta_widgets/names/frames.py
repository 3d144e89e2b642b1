"""Names of Python frames, such as ``torch/nn/modules/linear.py(114): forward``."""

from __future__ import annotations

import re
from typing import Final

_FRAME: Final = re.compile(r"^(?:.*/)?([^/]*)(\.py\(\d+\): .*)$", re.DOTALL)
_BUILT_IN: Final = re.compile(
    r"^<built-in (?:function|method) (\S+?)(?: of (\S+) object at 0x[0-9a-f]+)?>$"
)
_NO_OWNER: Final = {None, "type"}
"""Owners that say nothing: of a function, and of a method of a class that is not named."""

_CUT: Final = "…"

_LEAST_OF_FILE: Final = 4


def without_built_in(name: str) -> str:
    """What a built-in function or method is called, in place of how Python prints it.

    Other names stay.

    Examples
    --------
    >>> without_built_in("<built-in function zoom>")
    'zoom'
    >>> without_built_in("<built-in method run_backward of torch._C._EngineBase object at 0x7f2>")
    'run_backward of torch._C._EngineBase'
    >>> without_built_in("<built-in method conv2d of type object at 0x7f2d>")
    'conv2d'
    """
    found = _BUILT_IN.match(name)
    if found is None:
        return name
    return found[1] if found[2] in _NO_OWNER else f"{found[1]} of {found[2]}"


def without_folders(name: str, width: int) -> str:
    """Drop the beginning of a frame that is longer than `width`: folders, then that of the file.

    Other names stay, and so do frames whose line and function alone have no room.

    Examples
    --------
    >>> without_folders("transformers/models/bert/modeling_bert.py(364): forward", 48)
    '…/models/bert/modeling_bert.py(364): forward'
    >>> without_folders("transformers/models/bert/modeling_bert.py(364): forward", 28)
    '…eling_bert.py(364): forward'
    """
    frame = _FRAME.match(name) if len(name) > width else None
    start = len(name) - width + len(_CUT)
    if frame is None or start > frame.start(2) - min(_LEAST_OF_FILE, len(frame[1])):
        return name
    slash = name.find("/", start, frame.start(1))
    return f"{_CUT}{name[slash if slash >= 0 else start :]}"
