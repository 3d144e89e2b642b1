"""Names of Python frames, such as ``torch/nn/modules/linear.py(114): forward``."""

from __future__ import annotations

import re
from typing import Final

_FRAME: Final = re.compile(r"^(?:.*/)?([^/]*)(\.py\(\d+\): .*)$", re.DOTALL)
_CUT: Final = "…"


_LEAST_OF_FILE: Final = 4


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
