"""The files that docs/adding.md asks for exist for everything that there is."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import hta_widgets
from benchmarks.house import PARTS, Tree, walk
from hta_widgets import analyses
from hta_widgets.analyses.timeline.added import LANE_KINDS
from hta_widgets.diagnosis import CAUSES
from hta_widgets.panels.every import EVERY
from hta_widgets.sample import write_sample
from hta_widgets.trace.loaders.formats import FORMATS
from tests import mutants

ANALYSES = "hta_widgets/analyses/__init__.py"
ANALYSED_ABOVE = {
    "critical_path": "hta_widgets/diagnosis/critical_path.py",
    "diagnosis": "hta_widgets/diagnosis/analysis.py",
    "what_if": "hta_widgets/diagnosis/what_if.py",
}
"""What has a floor of its own above the analyses."""

MOST_WALKED = 15
"""Modules above the traces that one rank is handed through in a diagnosis."""

ROOT = Path(hta_widgets.__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
ADDING = ROOT / "docs" / "adding.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="installed: no docs beside the package")


def paths(heading):
    """Paths in the table under a heading."""
    section = (
        ADDING.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    )
    found = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(found) > 1
    return found


def lacking(name: str, panel: str, title: str, root: Path = ROOT) -> list[str]:
    """What an analysis with its panel lacks, and the file to write or to add it to."""
    said = [
        f"{name} has no {what}: write {path}"
        for what, path in {
            "analysis": ANALYSED_ABOVE.get(name, f"hta_widgets/analyses/{name}.py"),
            "panel": f"hta_widgets/panels/{name}.py",
            "page": f"docs/analyses/{name}.md",
            "test of its numbers": f"tests/analyses/test_{name}.py",
        }.items()
        if not ((root / path).is_file() or (root / path).with_suffix("").is_dir())
    ]
    page = root / "docs" / "analyses" / f"{name}.md"
    if page.is_file() and not page.read_text(encoding="utf-8").startswith(f"# {title}\n"):
        said.append(f"the page of {name} is not titled {title!r}: edit docs/analyses/{name}.md")
    lists = {
        **({} if name in ANALYSED_ABOVE else {f"import {name} as {name}": ANALYSES}),
        f"{panel} as {panel}": "hta_widgets/panels/__init__.py",
        f"(analyses/{name}.md)": "docs/README.md",
    }
    return said + [
        f"{name} is not listed: add a line with {line!r} to {path}"
        for line, path in lists.items()
        if line not in (root / path).read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", EVERY)
def test_every_analysis_has_its_files_and_a_panel_with_the_title_of_its_page(name):
    assert lacking(name, EVERY[name].__name__, EVERY[name].title) == []


@pytest.mark.parametrize(
    "module", [*(ROOT / "docs" / "analyses").glob("*.md")], ids=lambda page: page.stem
)
def test_every_page_of_an_analysis_is_of_one(module):
    names = {*EVERY, *analyses.__all__, "trace_with_counters"}
    assert module.stem in names, (
        f"{module.stem} has no panel: name it in hta_widgets/panels/{module.stem}.py"
    )


@pytest.mark.parametrize("kind", LANE_KINDS)
def test_every_kind_of_lane_has_its_row_and_its_test(kind):
    assert lacking_of_lane(kind) == []


def lacking_of_lane(kind: str) -> list[str]:
    """What a kind of lane lacks, and the file to add it to."""
    return [
        f"the lane {kind} has no {what}: add it to {path}"
        for what, path, text in (
            ("row", "docs/analyses/timeline.md", f"| `{kind}` |"),
            ("test of its numbers", "tests/analyses/test_added_lanes.py", f'"{kind}"'),
        )
        if text not in (ROOT / path).read_text(encoding="utf-8")
    ]


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
        assert place.is_file(), f"{cause} lacks {place.relative_to(ROOT)}"
        assert cause in place.read_text(encoding="utf-8"), f"{path} does not name {cause}"


def test_every_package_is_on_the_map():
    page = PAGE.read_text(encoding="utf-8")
    tree = page.partition("## Where things are")[2].partition("\n## ")[0]
    for folder in (ROOT / "hta_widgets", ROOT / "hta_widgets" / "trace"):
        for package in folder.glob("*/__init__.py"):
            assert f"── {package.parent.name}/" in tree, package


def test_nothing_imports_in_a_circle():
    """Also where it is imported for its type only, or in a function."""
    tree = Tree(ROOT)
    TopologicalSorter(tree.imports).prepare()
    for part in PARTS:
        if f"hta_widgets.{part}" in tree.texts:
            TopologicalSorter(tree.inner(part)).prepare()


def test_a_diagnosis_hands_a_rank_through_few_modules(tmp_path):
    """What a reader of a diagnosis has to open: it was 31 before the house was put in order."""
    write_sample(tmp_path, ranks=2, progress=False)
    assert walk(ROOT, tmp_path).modules <= MOST_WALKED


def test_what_mutants_change_and_run_is_there():
    for part in mutants.PARTS.values():
        for changed, tests in part.tests_of.items():
            named = [changed, *(f"tests/{each}" for each in tests)]
            assert [each for each in named if not (ROOT / each).exists()] == []
