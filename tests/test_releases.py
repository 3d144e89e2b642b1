"""What a release must have in step: versions, and what the conda recipe needs."""

from __future__ import annotations

import re
from importlib.metadata import metadata, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
RECIPE = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
ON_CONDA = {"isal": "python-isal"}
"""Names on conda-forge that are not those of PyPI."""
LEAST = {"python_version": "3.10", "platform_machine": "x86_64", "extra": ""}
"""Where the floors are lowest: those of newer Pythons are of wheels, of which conda has its own."""


def listed(text: str, key: str) -> str:
    """The value of a key of YAML."""
    found = re.search(rf'^ *{key}: "?([^"\n]+)"?$', text, re.MULTILINE)
    assert found, key
    return found[1]


def test_the_version_is_the_same_everywhere() -> None:
    version = metadata("hta_widgets")["Version"]
    assert listed(RECIPE, "version") == version
    assert listed((ROOT / "CITATION.cff").read_text(encoding="utf-8"), "version") == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_conda_recipe_needs_what_the_wheel_needs() -> None:
    every = map(Requirement, requires("hta_widgets") or [])
    needed = [each for each in every if each.marker is None or each.marker.evaluate(LEAST)]
    run = RECIPE.partition("  run:\n")[2].partition("\n\n")[0]
    assert {line.strip("- ") for line in run.splitlines()[1:]} == {
        f"{ON_CONDA.get(each.name, each.name)} {each.specifier}" for each in needed
    }
    python = f">={listed(RECIPE, 'python_min')}"
    assert metadata("hta_widgets")["Requires-Python"] == python
