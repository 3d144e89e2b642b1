"""What the buttons of a panel do, and how it is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.panels.base.controls import Button

if TYPE_CHECKING:
    from hta_widgets.panels.base.panel import Panel

_NAMES_AT_MOST = 3


def answer(panel: Panel, asked: dict[str, Any]) -> dict[str, Any]:
    """Do what a button asks for, and say how it went.

    Returns
    -------
    dict
        ``number`` of the request, ``text`` and ``failed``.
    """
    try:
        text, failed = outcome(_method(panel, asked.get("name"))()), False
    except Exception as failure:  # noqa: BLE001  # it is shown in the panel
        text, failed = reason(failure), True
    return {"number": asked["number"], "text": text, "failed": failed}


def _method(panel: Panel, name: str | None) -> Callable[[], Any]:
    if name not in {each.name for each in panel.controls if isinstance(each, Button)}:
        msg = f"{type(panel).__name__} has no button {name!r}"
        raise HtaWidgetsError(msg)
    method: Callable[[], Any] = getattr(panel, name)
    return method


def reason(failure: Exception) -> str:
    """Why something failed, in words."""
    known = isinstance(failure, HtaWidgetsError)
    return str(failure) if known else f"{type(failure).__name__}: {failure}"


def outcome(returned: str | Path | Sequence[Path] | None) -> str:
    """What a method did, by what it returned: text, or files that it wrote.

    Examples
    --------
    >>> outcome([Path("/traces/a.json"), Path("/traces/b.json")])
    'Wrote a.json, b.json to /traces'
    >>> outcome([])
    'There was nothing to write.'
    """
    if returned is None:
        return "Done."
    if isinstance(returned, str):
        return returned
    files = [returned] if isinstance(returned, Path) else list(returned)
    if not files:
        return "There was nothing to write."
    names = [file.name for file in files[:_NAMES_AT_MOST]]
    if len(files) > _NAMES_AT_MOST:
        names[-1] += f" and {len(files) - _NAMES_AT_MOST} more"
    return f"Wrote {', '.join(names)} to {files[0].resolve().parent}"
