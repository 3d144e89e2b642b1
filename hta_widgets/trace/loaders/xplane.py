"""Refuse XPlane profiles of JAX, TensorFlow and PyTorch/XLA, and say what to give instead."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hta_widgets.errors import TraceFormatError

SUFFIX: Final = ".xplane.pb"


def refuse_xplane(path: Path) -> None:
    """Raise a `TraceFormatError` if the name of a path is that of an XPlane profile."""
    if path.name.endswith(SUFFIX):
        msg = (
            f"{path} is an XPlane profile (of JAX, TensorFlow or PyTorch/XLA), which hta_widgets "
            "does not read; open it with XProf, or record the GPUs with Nsight Systems (nsys "
            "profile, then nsys export --type sqlite)"
        )
        raise TraceFormatError(msg)
