"""Button actions and their status messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.panels.base.protocol import Action, Answer

if TYPE_CHECKING:
    from hta_widgets.panels.base.panel import Panel

_MAX_NAMES = 3


def answer(panel: Panel[Any], action: Action) -> Answer:
    """Run a button's method and return its status message."""
    try:
        text, failed = describe(_method(panel, action.get("name"))()), False
    except Exception as failure:  # noqa: BLE001  # it is shown in the panel
        text, failed = reason(failure), True
    return {"number": action["number"], "text": text, "failed": failed}


def _method(panel: Panel[Any], name: str | None) -> Callable[[], Any]:
    if name is None or name not in panel.buttons:
        msg = f"{type(panel).__name__} has no button {name!r}"
        raise HtaWidgetsError(msg)
    method: Callable[[], Any] = getattr(panel, name)
    return method


def reason(failure: Exception) -> str:
    """Message for an exception."""
    known = isinstance(failure, HtaWidgetsError)
    return str(failure) if known else f"{type(failure).__name__}: {failure}"


def describe(returned: str | Path | Sequence[Path] | None) -> str:
    """Status message for what a method returned: text, or the files that it wrote.

    Examples
    --------
    >>> describe([Path("/traces/a.json"), Path("/traces/b.json")])
    'Wrote a.json, b.json to /traces'
    >>> describe([])
    'Nothing to write.'
    """
    if returned is None:
        return "Done."
    if isinstance(returned, str):
        return returned
    files = [returned] if isinstance(returned, Path) else list(returned)
    if not files:
        return "Nothing to write."
    names = [file.name for file in files[:_MAX_NAMES]]
    if len(files) > _MAX_NAMES:
        names[-1] += f" and {len(files) - _MAX_NAMES} more"
    return f"Wrote {', '.join(names)} to {files[0].resolve().parent}"
