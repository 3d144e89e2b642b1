"""What a panel says of the files that a button wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from hta_widgets.errors import some_of

_MAX_NAMES = 3


def files_of(returned: str | Path | Sequence[Path] | None) -> list[Path]:
    """Return the files that a method wrote, by what it returned."""
    if returned is None or isinstance(returned, str):
        return []
    return [returned] if isinstance(returned, Path) else [*returned]


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
    files = files_of(returned)
    if not files:
        return "Nothing to write."
    names = some_of([file.name for file in files], _MAX_NAMES)
    return f"Wrote {names} {_place(files[0].resolve().parent, beside)}"


def _place(folder: Path, beside: Collection[Path]) -> str:
    working = Path.cwd().resolve()
    if folder in {each.resolve() for each in beside}:
        return "beside the traces"
    if folder == working:
        return "to the working folder"
    is_below = working in folder.parents
    return f"to {folder.relative_to(working) if is_below else folder.name}"
