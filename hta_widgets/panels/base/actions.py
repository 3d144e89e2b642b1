"""Button actions and their status messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_widgets.errors import HtaWidgetsError, OutOfMemoryError
from hta_widgets.panels.base.declarations import FOLDER
from hta_widgets.panels.base.protocol import Action, Answer

if TYPE_CHECKING:
    from hta_widgets.panels.base.panel import Panel

_MAX_NAMES = 3


def answer(panel: Panel[Any], action: Action, beside: Collection[Path] = ()) -> Answer:
    """Run a button's method and return its status message.

    Parameters
    ----------
    panel : Panel
    action : Action
    beside : collection of Path
        Folders of the traces.
    """
    try:
        folder = {FOLDER: action["folder"]} if action.get("folder") else {}
        method = _method(panel, action.get("name"), *folder)
        text, failed = describe(method(**folder), beside), False
    except Exception as failure:  # noqa: BLE001  # it is shown in the panel
        text, failed = reason(failure), True
    return {"number": action["number"], "text": text, "failed": failed}


def _method(panel: Panel[Any], name: str | None, *given: str) -> Callable[..., Any]:
    button = None if name is None else panel.buttons.get(name)
    if name is None or button is None:
        msg = f"{type(panel).__name__} has no button {name!r}"
        raise HtaWidgetsError(msg)
    if given and not button.takes_folder:
        msg = f"{button.label!r} of {type(panel).__name__} writes into no folder"
        raise HtaWidgetsError(msg)
    method: Callable[..., Any] = getattr(panel, name)
    return method


def reason(failure: Exception) -> str:
    """Message for an exception."""
    if isinstance(failure, MemoryError) and not isinstance(failure, OutOfMemoryError):
        failure = OutOfMemoryError.while_doing("working out what to show", failure)
    known = isinstance(failure, HtaWidgetsError)
    return str(failure) if known else f"{type(failure).__name__}: {failure}"


def describe(returned: str | Path | Sequence[Path] | None, beside: Collection[Path] = ()) -> str:
    """Status message for what a method returned: text, or the files that it wrote.

    It names no folder above the working folder, as notebooks are saved with it.

    Examples
    --------
    >>> describe([Path("/traces/a.json"), Path("/traces/b.json")], [Path("/traces")])
    'Wrote a.json, b.json beside the traces'
    >>> describe(Path("/data/marked/a.json"))
    'Wrote a.json to marked'
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
    return f"Wrote {', '.join(names)} {_place(files[0].resolve().parent, beside)}"


def _place(folder: Path, beside: Collection[Path]) -> str:
    working = Path.cwd().resolve()
    if folder in {each.resolve() for each in beside}:
        return "beside the traces"
    if folder == working:
        return "to the working folder"
    is_below = working in folder.parents
    return f"to {folder.relative_to(working) if is_below else folder.name}"
