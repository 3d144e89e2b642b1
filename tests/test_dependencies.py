"""The oldest dependencies that are tested are the oldest that the package asks for.

Google Colab has all of them but anywidget.
"""

from __future__ import annotations

from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

OLDEST = Path(__file__).with_name("oldest.txt")
COLAB = Path(__file__).with_name("colab.txt")
COLAB_PYTHON = "13"
CLASSIFIER = "Programming Language :: Python :: 3."
PACKAGE = metadata("hta_widgets")
PYTHONS = [
    each.removeprefix(CLASSIFIER)
    for each in PACKAGE.get_all("Classifier") or []
    if each.startswith(CLASSIFIER)
]


def lines_of(file):
    """Requirements of a file without its comments."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def asked_for():
    """Requirements of the package, extras included."""
    return [Requirement(each) for each in PACKAGE.get_all("Requires-Dist")]


def versions(requirements, minor):
    """Version that each requirement names on Python 3.`minor`, by package and operator."""
    python = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0", "extra": ""}
    applicable = [
        each for each in requirements if each.marker is None or each.marker.evaluate(python)
    ]
    bounds = [(each.name, bound) for each in applicable for bound in each.specifier]
    assert len(bounds) == len(applicable) == len({name for name, _ in bounds})
    return {(name, bound.operator): Version(bound.version) for name, bound in bounds}


@pytest.mark.parametrize("minor", PYTHONS)
def test_the_oldest_tested_is_the_oldest_supported(minor):
    floors = versions(asked_for(), minor)
    pins = versions(lines_of(OLDEST), minor)
    assert {(name, "=="): version for (name, _), version in floors.items()} == pins
    assert {operator for _, operator in floors} == {">="}


def test_the_oldest_python_is_the_oldest_supported():
    assert PACKAGE["Requires-Python"] == f">=3.{PYTHONS[0]}"


def test_colab_has_all_but_a_new_anywidget():
    floors = versions(asked_for(), COLAB_PYTHON)
    present = {
        name: version for (name, _), version in versions(lines_of(COLAB), COLAB_PYTHON).items()
    }
    too_old = {name for (name, _), floor in floors.items() if present.get(name, floor) < floor}
    assert too_old == {"anywidget"}
