"""Open what a profiler of PyTorch holds: it writes its trace once, for as long as we run."""

from __future__ import annotations

from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from hta_widgets.errors import ParameterError


@runtime_checkable
class LiveProfiler(Protocol):
    """A ``torch.profiler.profile``, or anything else that writes its trace so."""

    def export_chrome_trace(self, path: str) -> object:
        """Write the trace to a file."""


_WRITTEN: Final[WeakKeyDictionary[LiveProfiler, tuple[object, Path]]] = WeakKeyDictionary()
"""What each profiler had recorded when it wrote, and where: PyTorch refuses to write it again."""

_NUMBERS: Final = count(1)


def path_of_live(profiler: LiveProfiler) -> Path:
    """Path of the trace of a profiler, which is written unless it has been.

    The file is removed when the process ends.

    Raises `ParameterError` if it has no trace to write.
    """
    recorded, path = _WRITTEN.get(profiler, (None, None))
    if path is not None and recorded is _recorded(profiler) and path.exists():
        return path
    folder = Path(_folder().name) / f"profiler_{next(_NUMBERS)}"
    folder.mkdir()
    try:
        profiler.export_chrome_trace(str(folder / "trace.json"))
    except Exception as error:
        msg = (
            "the profiler has no trace to give: it is still recording, has recorded nothing, or "
            "has saved its trace already, which it can do once; leave its with block or call "
            "stop(), and open what it has saved by its path"
        )
        raise ParameterError(msg) from error
    wrote(profiler, folder)
    return folder


def wrote(profiler: LiveProfiler, path: Path) -> None:
    """Say where the trace of a profiler is."""
    _WRITTEN[profiler] = _recorded(profiler), path


def _recorded(profiler: object) -> object:
    """What a profiler recorded last: another object after another cycle."""
    return getattr(getattr(profiler, "profiler", profiler), "kineto_results", None)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="hta_widgets_")
