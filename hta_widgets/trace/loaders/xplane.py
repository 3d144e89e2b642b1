"""Refuse XPlane profiles of JAX, TensorFlow and PyTorch/XLA, and say what to give instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hta_widgets.errors import TraceFormatError

SUFFIX: Final = ".xplane.pb"

_FIRST_BYTES: Final = 256
_PLANE: Final = re.compile(
    rb"\n[\x80-\xff]{0,9}[\x00-\x7f]"
    rb"(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
    rb"\x12[\x80-\xff]{0,9}[\x00-\x7f](?:/(?:host|device):|Task Environment)"
)
"""The first plane of a protobuf message: its length, its id if it has one, and its name."""


def refuse_named_xplane(path: Path) -> None:
    """Refuse an XPlane profile, recognised by its name.

    Raises `TraceFormatError` if it has the suffix of one.
    """
    if path.name.endswith(SUFFIX):
        raise TraceFormatError(_message(path))


def refuse_xplane(path: Path) -> None:
    """Refuse an XPlane profile, recognised by its name or its first bytes.

    Raises `TraceFormatError` if it is one.
    """
    refuse_named_xplane(path)
    if path.is_file():
        with path.open("rb") as file:
            first = file.read(_FIRST_BYTES)
        if _PLANE.match(first):
            raise TraceFormatError(_message(path))


def _message(path: Path) -> str:
    return (
        f"{path} is an XPlane profile (of JAX, TensorFlow or PyTorch/XLA), which hta_widgets does "
        "not read; open it with XProf, or record the GPUs with Nsight Systems (nsys profile, then "
        "nsys export --type sqlite)"
    )
