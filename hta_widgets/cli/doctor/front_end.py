"""Check whether the browser finds the front end: anywidget's, and ours."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from hta_widgets.cli.doctor.host import Host, Place
from hta_widgets.cli.doctor.packages import RESTART, Problem, installed_version, release

EXTENSIONS: Final = {
    "anywidget": "anywidget",
    "jupyterlab_widgets": "@jupyter-widgets/jupyterlab-manager",
}
"""Extension that each package brings."""

_MANAGERS: Final = {7: 3, 8: 5}
"""Major version of the widget manager that fits each major version of ipywidgets."""

_DATA = Path("share", "jupyter")
_LAB = _DATA / "lab" / "static" / "package.json"


class Extension(NamedTuple):
    """A part of the front end that Jupyter serves to the browser."""

    folder: Path
    version: str | None


@dataclass(frozen=True)
class FrontEnd:
    """The packages with a part of the front end, as the host finds them."""

    host: Host
    environment: Path
    found: dict[str, Extension]

    @classmethod
    def of(cls, place: Place) -> FrontEnd:
        """Look where the host looks: in its server's environment, or in this one."""
        environment = place.server or Path(sys.prefix)
        folders = [folder / place.host.folder for folder in data_folders(environment)]
        found = {package: find_extension(name, folders) for package, name in EXTENSIONS.items()}
        return cls(place.host, environment, {name: each for name, each in found.items() if each})

    def description(self) -> str:
        """Name the versions found, and where, unless the host brings its own."""
        if self.host.brings_its_own:
            return f"comes with {self.host.name}"
        if "anywidget" not in self.found:
            return f"no anywidget in {self.environment}"
        served = {EXTENSIONS[name]: each.version or "" for name, each in self.found.items()}
        parts = [f"{name} {version}".rstrip() for name, version in served.items()]
        if lab := version_in(self.environment / _LAB):
            parts.append(f"jupyterlab {lab}")
        return f"{', '.join(parts)} in {self.found['anywidget'].folder.parent.parent}"

    def problems(self) -> list[Problem]:
        """Find what keeps panels from being drawn."""
        found = [*self._missing(), *self._of_another_version(), *self._manager_of_another()]
        return [*found, *_stale_build()]

    def _missing(self) -> list[Problem]:
        return [
            Problem(
                f"{self.host.name} finds no {name} in {self.environment}",
                f"pip install {name} there, restart {self.host.name} and reload the page",
            )
            for name in self.host.needs
            if name not in self.found
        ]

    def _of_another_version(self) -> list[Problem]:
        """Compare anywidget's two halves, which must have the same minor version."""
        served, ours = self._served("anywidget"), installed_version("anywidget")
        if not served or not ours or release(served)[:2] == release(ours)[:2]:
            return []
        what = f"{self.host.name} has anywidget {served}, but this Python has {ours}"
        cure = f"pip install anywidget=={ours} in {self.environment}, and reload the page"
        return [Problem(what, cure)]

    def _manager_of_another(self) -> list[Problem]:
        """Compare ipywidgets with its half in JupyterLab, which draws its boxes and sliders."""
        served, ours = self._served("jupyterlab_widgets"), installed_version("ipywidgets")
        if not served or not ours or _MANAGERS.get(release(ours)[0]) in {None, release(served)[0]}:
            return []
        what = f"{EXTENSIONS['jupyterlab_widgets']} {served} cannot draw ipywidgets {ours}"
        if release(served)[0] == _MANAGERS[8]:
            return [Problem(what, f"pip install 'ipywidgets>=8', then {RESTART}")]
        cure = f"pip install 'jupyterlab_widgets>=3' in {self.environment}, and reload the page"
        return [Problem(what, cure)]

    def _served(self, package: str) -> str | None:
        """Version of a package's extension, if the host needs it."""
        wanted = package in self.host.needs and package in self.found
        return self.found[package].version if wanted else None


def data_folders(environment: Path) -> list[Path]:
    """Jupyter data folders that a server of an environment reads, in its order."""
    own = environment / _DATA
    try:
        from jupyter_core.paths import jupyter_path  # noqa: PLC0415  # comes with ipykernel
    except ImportError:
        return [own]
    here = Path(sys.prefix) / _DATA
    return [own if Path(each) == here else Path(each) for each in jupyter_path()]


def find_extension(name: str, folders: list[Path]) -> Extension | None:
    """Find an extension in the first of the folders that has it."""
    for folder in folders:
        with suppress(PermissionError):  # a home folder without permission to search it
            if (folder / name).is_dir():
                return Extension(folder / name, version_in(folder / name / "package.json"))
    return None


def version_in(file: Path) -> str | None:
    """Version that a ``package.json`` names; None if there is none."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _stale_build() -> list[Problem]:
    """Find a front end that is older than its sources, which only a checkout has."""
    built = sys.modules.get("hta_widgets.panels.base.front_end")
    if built is None or built.is_up_to_date():
        return []
    what = "the built front end of hta_widgets is missing or older than its sources"
    return [Problem(what, f"run `{built.BUILD_COMMAND}` in {built.SOURCES}")]
