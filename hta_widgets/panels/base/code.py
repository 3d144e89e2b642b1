"""The lines of Python that show what a panel shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hta_widgets.panels.base.selection import Selection
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelRules

if TYPE_CHECKING:
    from hta_widgets.panels.base.panel import Panel

PLACE: Final = "path/to/traces"
"""Stands for the path of a job: code that is passed on names no folder of whoever wrote it."""

_PACKAGE: Final = "hta_widgets.panels"
_WIDTH: Final = 88


def panel_code(panel: Panel[Any]) -> str:
    """Write the import, the job and the panel with what differs from its defaults.

    Of the selection, it has the fields that the panel depends on.
    """
    kind, jobs = type(panel), panel.jobs
    names = ["job"] if len(jobs) == 1 else ["first", "second"]
    parameters = _parameters(panel)
    selected = {name: parameters.pop(name) for name in _linked(panel) if name in parameters}
    selected |= _changed(panel.selection, panel.follows)
    if panel.linked and selected:
        parameters["selection"] = f"Selection({_arguments(selected)})"
    elif not panel.linked:
        parameters |= {name: selected.pop(name) for name in _linked(panel) if name in selected}
    lines = [
        "from hta_widgets import open_trace",
        *_imports(kind, with_selection="selection" in parameters),
        "",
        *map(_opened, names, jobs, _places(names)),
        _call(f"panel = {kind.__name__}", [*names, *_keywords(parameters)]),
    ]
    if not panel.linked:
        lines += [f"panel.selection.{name} = {value}" for name, value in selected.items()]
    return "\n".join([*lines, "panel"])


def _imports(kind: type, *, with_selection: bool) -> list[str]:
    names = ["Selection"] if with_selection else []
    if kind.__module__.startswith(_PACKAGE):
        names.append(kind.__name__)
    ours = [f"from {_PACKAGE} import {', '.join(sorted(names))}"] if names else []
    is_ours, is_typed = kind.__module__.startswith(_PACKAGE), kind.__module__ == "__main__"
    theirs = [] if is_ours or is_typed else [f"from {kind.__module__} import {kind.__name__}"]
    return ours + theirs


def _places(names: list[str]) -> list[str]:
    return [PLACE] if len(names) == 1 else [f"{PLACE}/{name}" for name in names]


def _opened(name: str, job: Job, place: str) -> str:
    options = [repr(place)]
    if job.settings.include_last_profiler_step:
        options.append("include_last_profiler_step=True")
    note = "  # with kernel rules" if job.settings.kernel_rules != KernelRules() else ""
    return f"{name} = open_trace({', '.join(options)}){note}"


def _parameters(panel: Panel[Any]) -> dict[str, str]:
    """Parameters that differ from their defaults, as code."""
    return _changed(panel, panel.parameters())


def _linked(panel: Panel[Any]) -> tuple[str, ...]:
    return tuple(name for name in ("ranks", "streams") if name in panel.parameters())


def _changed(holder: Panel[Any] | Selection, names: tuple[str, ...]) -> dict[str, str]:
    values = {name: getattr(holder, name) for name in names}
    return {
        name: repr(value) for name, value in values.items() if value != holder.trait_defaults(name)
    }


def _arguments(parameters: dict[str, str]) -> str:
    return ", ".join(_keywords(parameters))


def _keywords(parameters: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in parameters.items()]


def _call(called: str, arguments: list[str]) -> str:
    line = f"{called}({', '.join(arguments)})"
    if len(line) <= _WIDTH:
        return line
    return f"{called}(\n" + "".join(f"    {each},\n" for each in arguments) + ")"
