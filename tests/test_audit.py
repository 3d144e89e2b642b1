"""What the registries answer is read, and no answer is not taken for a good one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from tests import audit
from tests.audit import vulnerable_npm_packages, vulnerable_python_packages

ADVISORY = {"id": "PYSEC-2024-1", "fix_versions": ["2.0"]}


@pytest.mark.parametrize(
    ("report", "found"),
    [
        ({}, None),
        ({"error": {"summary": "405 Method Not Allowed"}}, None),
        ({"vulnerabilities": {}}, []),
        ({"vulnerabilities": {"plotly.js": {"severity": "high"}}}, ["plotly.js (high)"]),
    ],
)
def test_of_npm(report, found):
    assert vulnerable_npm_packages(report) == found


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ([], None),
        ([{"name": "a", "skip_reason": "Dependency not found on PyPI"}], None),
        ([{"name": "a", "version": "1", "vulns": []}], []),
        (
            [
                {"name": "a", "skip_reason": "not found"},
                {"name": "b", "version": "1.0", "vulns": [ADVISORY]},
            ],
            ["b 1.0 (PYSEC-2024-1)"],
        ),
    ],
)
def test_of_pypi(packages, found):
    assert vulnerable_python_packages({"dependencies": packages}) == found
    assert vulnerable_python_packages({}) is None


class Package:
    """An installed package, as importlib.metadata describes one."""

    version = "1.0"

    def __init__(self, *requires: str) -> None:
        self.requires = list(requires)


def test_what_is_needed_at_run_time(monkeypatch):
    installed = {
        "ours": Package("pandas>=2", 'pytest; extra == "dev"', 'colorama; os_name == "nt"'),
        "pandas": Package("numpy>=1; python_version >= '3.10'", 'fsspec>=1; extra == "fss"'),
        "numpy": Package(),
        "pytest": Package(),
        "fsspec": Package(),
    }

    def distribution(name: str) -> Package:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(audit, "distribution", distribution)
    assert audit.needed_at_run_time("ours") == {"pandas": "1.0", "numpy": "1.0"}
