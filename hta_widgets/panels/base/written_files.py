"""Files that a button wrote: the message about them, and their contents in parts.

The page can download them, because the kernel may run on another machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import SEEK_END
from pathlib import Path
from typing import Any, Final

from hta_widgets.errors import ParameterError, reason
from hta_widgets.panels.base.table import Answered
from hta_widgets.quantities import some_of

FILE: Final = "written-file"
"""Kind of the message that asks for a part of a file."""

CHUNK_BYTES: Final = 1_000_000

_MAX_NAMES: Final = 3


def files_of(returned: str | Path | Sequence[Path] | None) -> list[Path]:
    """The files that a method wrote, taken from its return value."""
    if returned is None or isinstance(returned, str):
        return []
    return [returned] if isinstance(returned, Path) else [*returned]


def describe(returned: str | Path | Sequence[Path] | None, beside: Collection[Path] = ()) -> str:
    """Status message for what a method returned: text, or the files it wrote.

    It names no folder above the working folder, because notebooks are saved with it.

    Examples
    --------
    >>> describe([Path("/traces/a.json"), Path("/traces/b.json")], [Path("/traces")])
    'Wrote a.json, b.json next to the traces'
    >>> describe(Path("/data/marked/a.json"))
    'Wrote a.json to marked'
    >>> describe([])
    'Nothing to write.'
    """
    if returned is None:
        return "Done."
    if isinstance(returned, str):
        return returned
    files = files_of(returned)
    if not files:
        return "Nothing to write."
    names = some_of([file.name for file in files], _MAX_NAMES)
    return f"Wrote {names} {_place(files[0].resolve().parent, beside)}"


def _place(folder: Path, beside: Collection[Path]) -> str:
    working = Path.cwd().resolve()
    if folder in {each.resolve() for each in beside}:
        return "next to the traces"
    if folder == working:
        return "to the working folder"
    is_below = working in folder.parents
    return f"to {folder.relative_to(working) if is_below else folder.name}"


def is_about_file(content: object) -> bool:
    """Whether a custom message asks for a file."""
    return isinstance(content, dict) and content.get("kind") == FILE


def answer_about_file(content: dict[str, Any], written: Mapping[str, Path]) -> Answered:
    """Answer with a part of a file, or say why not.

    The question has an ``id``, a text that the answer repeats; the ``name`` of one of the files
    that the page may download; and the ``offset`` (bytes) in it.
    """
    number = content.get("id")
    asked = {"kind": FILE, "id": number if isinstance(number, str) else None}
    try:
        size, part = _part(written, content.get("name"), content.get("offset"))
    except (ParameterError, OSError) as failure:
        return Answered({**asked, "problem": reason(failure)}, [])
    return Answered({**asked, "bytes": size}, [part])


def _part(written: Mapping[str, Path], name: object, offset: object) -> tuple[int, bytes]:
    """Size of a file, and a part of it."""
    if not isinstance(name, str) or name not in written:
        msg = "this file was not written just now: write it again"
        raise ParameterError(msg)
    if type(offset) is not int or offset < 0:
        msg = "offset must be at least 0"
        raise ParameterError(msg)
    with written[name].open("rb") as file:
        size = file.seek(0, SEEK_END)
        file.seek(offset)
        return size, file.read(CHUNK_BYTES)
