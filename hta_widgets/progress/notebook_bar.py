"""Progress bar for a notebook that leaves no output and no widgets behind.

An output that shows a closed widget turns into an error message when the page is reloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets
from IPython.display import DisplayHandle, display
from tqdm.notebook import tqdm

if TYPE_CHECKING:
    _Bar = tqdm[Any]
else:
    _Bar = tqdm


class NotebookBar(_Bar):
    """tqdm's bar, shown in an output that is emptied at the end."""

    _anchor: ipywidgets.Widget | None = None
    """A widget that stays open. JupyterLab 4.6 ends the subshell of a kernel's widgets if they all
    close while it still waits for that subshell, and the next panel would be dead. This was seen
    on a server 150 ms away, where the bar of a small trace was the first thing shown."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        if NotebookBar._anchor is None or NotebookBar._anchor.comm is None:
            NotebookBar._anchor = ipywidgets.Layout()
        super().__init__(display=False, **options)
        self.displayed = True
        self._output: DisplayHandle | None = _show(self.container)

    def close(self) -> None:
        """Close the bar and its widgets, and empty its output."""
        super().close()
        if self._output is not None:
            self._output.update({"text/plain": ""}, raw=True)  # type: ignore[no-untyped-call]
            self._output = None
        _close(self.container)


def _show(widget: ipywidgets.Widget) -> DisplayHandle:
    """Show a widget in an output that can be emptied, which those of ipywidgets 7 cannot."""
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    bundle = {"text/plain": "", "application/vnd.jupyter.widget-view+json": view}
    return display(bundle, raw=True, display_id=True)  # type: ignore[no-any-return,no-untyped-call]


def _close(widget: ipywidgets.Widget) -> None:
    """Close a widget and all its parts."""
    for inner in getattr(widget, "children", ()):
        _close(inner)
    for part in (widget.layout, getattr(widget, "style", None)):
        if part is not None:
            part.close()
    widget.close()
