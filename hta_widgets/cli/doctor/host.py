"""Find out which notebook application this process runs in, as far as possible."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple


class Host(NamedTuple):
    """A notebook application."""

    name: str
    needs: tuple[str, ...] = ()
    """Packages with a part of the front end that the application looks for."""
    folder: str = "labextensions"
    """Folder in Jupyter's data where it looks for them."""
    brings_its_own: bool = False
    """Whether it has its own front end for anywidget, or downloads one."""


_LAB_NEEDS: Final = ("anywidget", "jupyterlab_widgets")
_CLASSIC: Final = "nbextensions"

JUPYTERLAB: Final = Host("JupyterLab", _LAB_NEEDS)
NOTEBOOK: Final = Host("Jupyter Notebook", _LAB_NEEDS)
NBCLASSIC: Final = Host("nbclassic", ("anywidget",), _CLASSIC)
VOILA: Final = Host("Voilà", ("anywidget",))
VS_CODE: Final = Host("VS Code", ("anywidget",), _CLASSIC)
COLAB: Final = Host("Google Colab", brings_its_own=True)
DATABRICKS: Final = Host("Databricks", brings_its_own=True)
MARIMO: Final = Host("marimo", brings_its_own=True)
OTHER_KERNEL: Final = Host("a Jupyter kernel of another application")
NONE: Final = Host("none; in a notebook, call hta_widgets.doctor()")

_PROGRAMS: Final = {
    "jupyter-lab": JUPYTERLAB,
    "jupyterlab": JUPYTERLAB,
    "jupyter-labhub": JUPYTERLAB,
    "jupyterhub-singleuser": JUPYTERLAB,
    "jupyter-server": JUPYTERLAB,
    "jupyter-notebook": NOTEBOOK,
    "notebook": NOTEBOOK,
    "jupyter-nbclassic": NBCLASSIC,
    "voila": VOILA,
}
_WORDS = 3
"""Number of words of a command that may name the program, as in python -m jupyterlab."""

_ANCESTORS = 4
"""Number of ancestor processes that may be the server: a shell may stand in between."""


@dataclass(frozen=True)
class Place:
    """The host, and its server's environment if there is one and it is known."""

    host: Host
    server: Path | None = None

    def description(self) -> str:
        """Name the host, and its server's environment if that is not this one."""
        if self.server is None or self.server == Path(sys.prefix):
            return self.host.name
        return f"{self.host.name}, which runs in {self.server}"


def this_place() -> Place:
    """Find out where this process runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return find_place(sys.modules, os.environ, shell, _commands_above())


def find_place(
    modules: Mapping[str, Any],
    environ: Mapping[str, str],
    shell: Any,  # noqa: ANN401
    commands: Iterable[Sequence[str]],
) -> Place:
    """Conclude where a process runs.

    The evidence is the modules that it has imported, its environment, its IPython, and the
    commands of its ancestor processes, the nearest first.
    """
    host = _host_that_shows_itself(modules, environ, shell)
    if host is not None:
        return Place(host)
    served = map(_server_of, commands)
    found = next((place for place in served if place), None)
    if found is not None:
        return found
    if not hasattr(shell, "kernel"):
        return Place(NONE)
    return Place(VS_CODE if "VSCODE_PID" in environ else OTHER_KERNEL)


def _host_that_shows_itself(
    modules: Mapping[str, Any],
    environ: Mapping[str, str],
    shell: Any,  # noqa: ANN401
) -> Host | None:
    if "google.colab" in modules:
        return COLAB
    if "marimo" in modules and modules["marimo"].running_in_notebook():
        return MARIMO
    if "DATABRICKS_RUNTIME_VERSION" in environ:
        return DATABRICKS
    return VS_CODE if "__vsc_ipynb_file__" in getattr(shell, "user_ns", ()) else None


def _server_of(command: Sequence[str]) -> Place | None:
    for word in command[:_WORDS]:
        name = Path(word).stem.removesuffix("-script")
        if name in _PROGRAMS:
            return Place(_PROGRAMS[name], _environment(command))
    return None


def _environment(command: Sequence[str]) -> Path | None:
    """Folder of the environment whose Python or script a command runs."""
    program = next((Path(word) for word in command if Path(word).is_absolute()), None)
    if program is None:
        return None
    folder = program.parent
    return folder.parent if folder.name.lower() in {"bin", "scripts"} else folder


def _commands_above() -> list[list[str]]:
    try:
        import psutil  # noqa: PLC0415  # comes with ipykernel
    except ImportError:
        return []
    commands = []
    for process in psutil.Process().parents()[:_ANCESTORS]:
        try:
            commands.append(process.cmdline())
        except psutil.Error:
            break
    return commands
