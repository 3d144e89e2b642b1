"""What installing the wheel changes in an environment with Google Colab's versions.

    python -I tests/colab_install.py WHEEL

Colab asks for a restart where pip replaces a package that its kernel has imported already. It has
not imported anywidget, so that is the only package that may change. Packages may be added.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

MAY_CHANGE = {"anywidget", "psygnal"}
"""anywidget, and what only anywidget needs."""


def main(wheel: str) -> int:
    planned = plan(wheel)
    present = {name: installed(name) for name in planned}
    changed = sorted(name for name, before in present.items() if before)
    for name in changed:
        print(f"changes {name} {present[name]} to {planned[name]}")  # noqa: T201
    print("adds", ", ".join(sorted(planned.keys() - {*changed})))  # noqa: T201
    return 0 if {"anywidget"} <= {*changed} <= MAY_CHANGE else 1


def plan(wheel: str) -> dict[str, str]:
    """Versions that pip would install, by package."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-"]
    report = subprocess.run([*command, wheel], check=True, stdout=subprocess.PIPE).stdout
    packages = [each["metadata"] for each in json.loads(report)["install"]]
    return {package["name"]: package["version"] for package in packages}


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
