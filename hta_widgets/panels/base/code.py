"""Writes the lines of Python that reproduce a panel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from traitlets import HasTraits

from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelRules

PLACE: Final = "path/to/traces"
"""Placeholder for the path of a job, so that shared code does not reveal the author's folders."""

_PACKAGE: Final = "hta_widgets.panels"
_WIDTH: Final = 88


def changed(holder: HasTraits, names: Iterable[str]) -> dict[str, str]:
    """The traits that differ from their defaults, as code."""
    values = {name: getattr(holder, name) for name in names}
    return {
        name: repr(value) for name, value in values.items() if value != holder.trait_defaults(name)
    }


def panel_code(
    kind: type,
    jobs: Sequence[Job],
    parameters: Mapping[str, str],
    picked: Mapping[str, str],
    followed: Mapping[str, str],
    *,
    linked: bool,
) -> str:
    """Write the import, the job, and the panel with the parameters that differ from defaults.

    `parameters` have these as code; so have `picked`, for parameters that are also selection
    fields, and `followed`, for other selection fields that the panel depends on. A `linked` panel
    shares its selection with others.
    """
    names = ["job"] if len(jobs) == 1 else ["first", "second"]
    keywords = dict(parameters)
    if not linked:
        keywords |= picked
    elif picked or followed:
        keywords["selection"] = f"Selection({', '.join(_keywords({**picked, **followed}))})"
    lines = [
        "from hta_widgets import open_trace",
        *_imports(kind, with_selection="selection" in keywords),
        "",
        *map(_opened, names, jobs, _places(names)),
        _call(f"panel = {kind.__name__}", [*names, *_keywords(keywords)]),
    ]
    if not linked:
        lines += [f"panel.selection.{name} = {value}" for name, value in followed.items()]
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


def _keywords(parameters: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in parameters.items()]


def _call(called: str, arguments: list[str]) -> str:
    line = f"{called}({', '.join(arguments)})"
    if len(line) <= _WIDTH:
        return line
    return f"{called}(\n" + "".join(f"    {each},\n" for each in arguments) + ")"
