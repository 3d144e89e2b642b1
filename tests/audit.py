"""Ask the registries for known vulnerabilities of what is shipped and of what it needs at run time.

``python -I tests/audit.py FOLDER_OF_FRONT_END PIP_AUDIT``, in an environment with hta_widgets.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

FOUND, UNANSWERED = 1, 3
"""Exit codes."""


def vulnerable_npm_packages(report: Mapping[str, Any]) -> list[str] | None:
    """Packages with a vulnerability in a report of `npm audit`; None if the registry gave none."""
    found = report.get("vulnerabilities")
    if not isinstance(found, dict):
        return None
    return [f"{name} ({each.get('severity')})" for name, each in sorted(found.items())]


def vulnerable_python_packages(report: Mapping[str, Any]) -> list[str] | None:
    """Packages with a vulnerability in a report of `pip-audit`; None if the index knew none."""
    asked = report.get("dependencies", [])
    answered = [each for each in asked if "skip_reason" not in each]
    if not answered:
        return None
    return [
        f"{each['name']} {each['version']} ({vulnerability['id']})"
        for each in answered
        for vulnerability in each.get("vulns", [])
    ]


def needed_at_run_time(name: str) -> dict[str, str]:
    """Versions of the packages that one needs here, without its extras."""
    versions: dict[str, str] = {}
    waiting = list(distribution(name).requires or [])
    while waiting:
        requirement = waiting.pop()
        package = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        if "extra ==" in requirement or package in versions:
            continue
        try:
            found = distribution(package)
        except PackageNotFoundError:  # not needed on this platform
            continue
        versions[package] = found.version
        waiting += found.requires or []
    return versions


def _report(command: Sequence[str]) -> dict[str, Any]:
    """Report of a command as JSON; empty if there is none."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        return {}


def main(front_end: str, pip_audit: str) -> int:
    """Print what was found, and return the exit code."""
    npm = _report(["npm", "--prefix", front_end, "audit", "--omit=dev", "--json"])
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "requirements.txt"
        versions = needed_at_run_time("hta_widgets")
        pins.write_text("".join(f"{name}=={versions[name]}\n" for name in sorted(versions)))
        options = ["--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
        python = _report([pip_audit, "--requirement", str(pins), *options])
    answers = {
        "npm": vulnerable_npm_packages(npm),
        f"PyPI ({len(versions)} packages)": vulnerable_python_packages(python),
    }
    for registry, vulnerable in answers.items():
        said = "no answer" if vulnerable is None else ", ".join(vulnerable) or "nothing known"
        print(f"{registry}: {said}")  # noqa: T201
    if any(answers.values()):
        return FOUND
    return UNANSWERED if None in answers.values() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
