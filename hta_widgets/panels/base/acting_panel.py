"""A panel whose buttons do something, and that names no folder of the user in what it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from traitlets import TraitError, validate

from hta_widgets.panels.base.actions import answer
from hta_widgets.panels.base.declared_panel import DeclaredPanel
from hta_widgets.panels.base.protocol import Action, Answer
from hta_widgets.panels.base.rendered_view import ResultT
from hta_widgets.panels.base.shown_paths import without_folders
from hta_widgets.panels.base.synced_view import SyncedView
from hta_widgets.panels.base.traits import typed_dict
from hta_widgets.trace.job import Job
from hta_widgets.trace.remote.urls import PathLike


class ActingPanel(DeclaredPanel[ResultT]):
    """Runs the methods behind the buttons of a panel, once for each press."""

    job: Job
    output_dir: PathLike | None

    from_browser = frozenset({"_action", *SyncedView.from_browser})

    _action = typed_dict(Action()).tag(sync=True, echo_update=False)
    _answer = typed_dict(Answer()).tag(sync=True)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What the panel was made with: one job, of some panels two."""
        return (self.job,)

    @cached_property
    def _trace_folders(self) -> frozenset[Path]:
        return frozenset(source.path.parent for job in self.jobs for source in job.sources.values())

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser, then run the action of a button.

        A folder that the user gave is forgotten, as notebooks are saved with the state.
        """
        with self.hold():
            before = self._action
            super().set_state(sync_data)
            action = self._action
            is_new = bool(action) and action is not before
            if is_new and action["number"] != self._answer.get("number"):
                told = answer(self, action, beside=self._trace_folders)
                shorten = self._shortening(action.get("folder"))
                self._answer = {**told, "text": shorten(told["text"])}
                self._action = {"name": action["name"], "number": action["number"]}

    @validate("_action")
    def _complete(self, proposal: dict[str, Any]) -> Action:
        action: Action = proposal["value"]
        kinds = {key: type(value) for key, value in action.items()}
        needed = {"name": str, "number": int}
        if kinds not in (needed, {**needed, "folder": str}, {}):
            msg = "an action has the name of a button, a number, and perhaps a folder"
            raise TraitError(msg)
        return action

    def _shortening(self, folder: PathLike | None = None) -> Callable[[str], str]:
        """Function that shortens paths in the texts that a notebook is saved with."""
        others = [Path(each).expanduser() for each in (self.output_dir, folder) if each]
        return without_folders(self._trace_folders.union(others))
