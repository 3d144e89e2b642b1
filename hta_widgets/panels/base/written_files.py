"""Files that a button wrote, for a page that downloads them: the kernel may run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from os import SEEK_END
from pathlib import Path
from typing import Any, Final

from hta_widgets.errors import ParameterError, reason
from hta_widgets.panels.base.table import Answered

FILE: Final = "written-file"
"""Kind of a question for a part of a file."""

CHUNK_BYTES: Final = 1_000_000


def is_about_file(content: object) -> bool:
    """Whether a custom message asks for a file."""
    return isinstance(content, dict) and content.get("kind") == FILE


def answer_about_file(content: dict[str, Any], written: Mapping[str, Path]) -> Answered:
    """Answer with a part of a file, or refuse it in words.

    Parameters
    ----------
    content : dict
        ``id``, a text that the answer repeats, ``name`` of the file and ``offset`` (bytes) in it.
    written : mapping of str to Path
        Files that the page may have, by name.
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
        msg = "this file is not one that was just written: write it again"
        raise ParameterError(msg)
    if type(offset) is not int or offset < 0:
        msg = "offset must be at least 0"
        raise ParameterError(msg)
    with written[name].open("rb") as file:
        size = file.seek(0, SEEK_END)
        file.seek(offset)
        return size, file.read(CHUNK_BYTES)
