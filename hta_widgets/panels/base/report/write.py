"""Write a report, but never overwrite a file that is not a report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import ParameterError, write_errors
from hta_widgets.panels.base.report.page import MARK, MARKED_BYTES
from hta_widgets.trace.remote.urls import PathLike

_ENDINGS: Final = (".html", ".htm")


def report_target(path: PathLike) -> Path:
    """Check the path of a report before anything is computed.

    Raises a `ParameterError` if the name does not end in ``.html``, the folder does not exist, or
    the file exists and is not a report; a `WriteError` if the system refuses to read that file.
    """
    target = Path(path).expanduser()
    if target.suffix.lower() not in _ENDINGS:
        msg = f"the name of a report must end in .html, got {target.name!r}"
        raise ParameterError(msg)
    if not target.parent.is_dir():
        msg = f"{target.parent} is not a folder; create it first, or choose another path"
        raise ParameterError(msg)
    with write_errors(target):
        if target.exists() and not _is_report(target):
            msg = (
                f"{target} exists and is not an hta_widgets report, so it is not overwritten; "
                "choose another path"
            )
            raise ParameterError(msg)
    return target


def write_report(target: Path, html: str) -> None:
    """Write the HTML of a report; an existing report stays until the new one is complete."""
    with write_errors(target), atomic_write(target) as partial:
        partial.write_text(html, encoding="utf-8", errors="replace", newline="\n")


def _is_report(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return MARK.encode() in content.read(MARKED_BYTES)
