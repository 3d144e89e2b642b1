"""A wheel names the licence of each part, also where its front end is built on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.panels.base import front_end
from hta_widgets.panels.base.panel import RECIPES

ROOT = Path(__file__).parents[1]
REFERRED_TO = [
    *(f"hta_widgets/docs/causes/{each.name}.md" for each in ALL_CAUSES),
    f"hta_widgets/{RECIPES}",
    "hta_widgets/docs/diagnosis.schema.json",
]
"""What findings, messages and the help of commands tell a user to read."""

PLOTLYS = "hta_widgets/panels/static/plotly.LICENSE.txt"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a build reads of a checkout in which nothing was built."""
    checkout = tmp_path / "checkout"
    base = checkout / "hta_widgets" / "panels" / "base"
    for folder in (base, checkout / "js" / "src", checkout / "tests" / "simulator"):
        folder.mkdir(parents=True)
    (checkout / "tests" / "simulator" / "__init__.py").touch()
    shutil.copy(front_end.__file__, base)
    (checkout / "hta_widgets" / "__init__.py").touch()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    shutil.copytree(ROOT / "docs" / "causes", checkout / "docs" / "causes")
    for name in ("recording.md", "diagnosis.schema.json"):
        shutil.copy(ROOT / "docs" / name, checkout / "docs")
    for name in ("build.mjs", "package-lock.json"):
        (checkout / "js" / name).touch()
    return checkout


def wheel_of(checkout: Path, programs: Path) -> ZipFile:
    """Build a wheel with an npm that copies the front end which this environment has."""
    programs.mkdir()
    npm = programs / "npm"
    npm.write_text(f'#!/bin/sh\ntest "$1" = ci || cp -r {front_end.STATIC} ../hta_widgets/panels\n')
    npm.chmod(0o755)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=checkout,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )
    (wheel,) = (checkout / "dist").glob("*.whl")
    return ZipFile(wheel)


@pytest.mark.skipif(sys.platform == "win32", reason="npm is a shell script here")
@pytest.mark.parametrize("is_built", [False, True])
def test_the_licences_of_a_wheel(checkout: Path, tmp_path: Path, is_built: bool) -> None:  # noqa: FBT001
    if is_built:
        shutil.copytree(front_end.STATIC, checkout / "hta_widgets" / "panels" / "static")
    with wheel_of(checkout, tmp_path / "programs") as wheel:
        names = wheel.namelist()
        assert not [name for name in names if name.startswith("tests")]
        assert {*REFERRED_TO} <= {*names}
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        folder = metadata.removesuffix("METADATA")
        listed = message_from_bytes(wheel.read(metadata)).get_all("License-File")
        assert listed == ["LICENSE", PLOTLYS]
        licences = f"{folder}licenses/"
        assert sorted(name for name in names if name.startswith(licences)) == [
            f"{licences}{name}" for name in listed
        ]
        assert b"Plotly" in wheel.read(f"{licences}{PLOTLYS}")
        assert wheel.read(f"{licences}{PLOTLYS}") == wheel.read(PLOTLYS)
