"""Build hook: makes the front end with npm unless it is there and up to date."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from runpy import run_path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
NO_NPM = (
    "The front end of hta_widgets is not built, and npm, which builds it, was not found: "
    "install Node.js 20 or newer (it brings npm), or install hta_widgets from a wheel."
)


class FrontEndHook(BuildHookInterface[Any]):
    """Runs before wheels, sdists and editable installs are put together."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build what is missing or stale; an sdist brings it along and needs no npm."""
        front_end = run_path(str(ROOT / "hta_widgets" / "panels" / "base" / "front_end.py"))
        if front_end["is_up_to_date"]():
            return
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit(NO_NPM)
        for command in (["ci"], ["run", "build"]):
            subprocess.run([npm, *command], cwd=ROOT / "js", check=True)  # noqa: S603
        self._list_licences(front_end["STATIC"])

    def _list_licences(self, static: Path) -> None:
        """Add those of what was just built: hatchling has looked for licences before.

        Without it, wheels that were built in a fresh checkout named no licence of plotly.
        """
        listed = self.metadata.core.license_files
        built = (path.relative_to(ROOT).as_posix() for path in static.glob("*LICENSE*.txt"))
        listed.extend(sorted({*built} - {*listed}))
