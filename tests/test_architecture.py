"""The files that docs/architecture.md asks for exist for everything that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hta_widgets
from hta_widgets.analyses.diagnosis import CAUSES
from hta_widgets.panels.every import EVERY, PANELS
from hta_widgets.trace.loaders.formats import FORMATS

ROOT = Path(hta_widgets.__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="installed: no docs beside the package")


def paths(heading):
    """Paths in the table under a heading."""
    section = (
        PAGE.read_text(encoding="utf-8").partition(f"### {heading}\n")[2].partition("\n### ")[0]
    )
    found = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(found) > 1
    return found


@pytest.mark.parametrize("name", EVERY)
def test_every_analysis_has_its_files(name):
    for path in paths("An analysis"):
        place = ROOT / path.replace("<name>", name)
        if "<name>" in path:
            assert place.is_file() or place.with_suffix("").is_dir(), path
        elif path != "CHANGELOG.md":
            mentioned = {name, EVERY[name].__name__}
            assert any(each in place.read_text(encoding="utf-8") for each in mentioned), path


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_has_the_title_of_its_page(name):
    page = (ROOT / "docs" / "analyses" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {PANELS[name].title}\n")


@pytest.mark.parametrize("form", FORMATS, ids=repr)
def test_every_format_has_its_files(form):
    folder = form.load.__module__.split(".")[-2]
    for path in paths("A format"):
        if "tests" not in path:
            place = ROOT / path.replace("<format>", folder)
            assert place.is_file(), path
    assert f".{folder}.format" in (ROOT / paths("A format")[2]).read_text(encoding="utf-8")


@pytest.mark.parametrize("heading", ["A control", "A kernel rule"])
def test_other_files_that_the_page_names_exist(heading):
    for path in paths(heading):
        assert (ROOT / path.replace("<name>", "overlap")).is_file(), path


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_its_files(cause):
    for path in paths("A cause of the diagnosis"):
        place = ROOT / path.replace("<name>", cause)
        assert place.is_file(), path
        assert cause in place.read_text(encoding="utf-8") or path.endswith("limits.py"), path


def test_every_package_is_on_the_map():
    page = PAGE.read_text(encoding="utf-8")
    tree = page.partition("## Where things are")[2].partition("\n## ")[0]
    for folder in (ROOT / "hta_widgets", ROOT / "hta_widgets" / "trace"):
        for package in folder.glob("*/__init__.py"):
            assert f"── {package.parent.name}/" in tree, package
