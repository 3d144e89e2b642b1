"""Open the recording of a PyTorch profiler, whose trace is written once and kept while we run."""

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
    """A ``torch.profiler.profile``, or anything else that writes its trace this way."""

    def export_chrome_trace(self, path: str) -> object:
        """Write the trace to a file."""


_WRITTEN: Final[WeakKeyDictionary[LiveProfiler, tuple[object, Path]]] = WeakKeyDictionary()
"""What each profiler had recorded when it wrote, and where; PyTorch refuses to write it again."""

_NUMBERS: Final = count(1)


def path_of_live(profiler: LiveProfiler) -> Path:
    """Path of the trace of a profiler, which is written if it has not been written yet.

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
            "has already saved its trace, which it can do only once; leave its with block or call "
            "stop(), or open the saved file by its path"
        )
        raise ParameterError(msg) from error
    wrote(profiler, folder)
    return folder


def wrote(profiler: LiveProfiler, path: Path) -> None:
    """Remember where a profiler wrote its trace."""
    _WRITTEN[profiler] = _recorded(profiler), path


def _recorded(profiler: object) -> object:
    """The last recording of a profiler, which is a new object after each cycle."""
    return getattr(getattr(profiler, "profiler", profiler), "kineto_results", None)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="hta_widgets_")
