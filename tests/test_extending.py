"""What docs/adding.md says of adding things, done, with the files that it takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hta_widgets
from hta_widgets import Limits, diagnose
from hta_widgets.analyses.timeline.added import LANE_KINDS, QUEUE
from hta_widgets.diagnosis import analysis
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.finding import Advice
from hta_widgets.panels import TimelinePanel
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model import kernels
from hta_widgets.trace.model.kernels import KernelRules, KernelType
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write
from tests.test_architecture import PAGE, lacking, lacking_of_lane

TESTS = Path(__file__).parent
EXAMPLE = TESTS / "adding"
"""The files of a tiny analysis with its panel and a control, where they belong."""

FILES = (
    "hta_widgets/analyses/long_kernels.py",
    "hta_widgets/panels/long_kernels.py",
    "docs/analyses/long_kernels.md",
    "tests/analyses/test_long_kernels.py",
)
LISTS = ("hta_widgets/analyses/__init__.py", "hta_widgets/panels/__init__.py", "docs/README.md")

needs_pages = pytest.mark.skipif(not PAGE.is_file(), reason="installed: no docs beside the package")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its pages, with the files of the example and nothing else."""
    root, package = tmp_path_factory.mktemp("extended"), Path(hta_widgets.__file__).parent
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, root / "hta_widgets", ignore=no_caches)
    if PAGE.is_file():
        shutil.copytree(PAGE.parent, root / "docs")
    shutil.copytree(EXAMPLE, root, dirs_exist_ok=True, ignore=no_caches)
    return root


def lacks(root: Path) -> list[str]:
    return lacking("long_kernels", "LongKernelsPanel", "Long kernels", root)


def test_an_analysis_with_its_panel_is_found_everywhere_by_four_new_files(extended: Path):
    """Analysis, panel, page and test; no file that was there is touched."""
    package = Path(hta_widgets.__file__).parents[1]
    new = [path for path in EXAMPLE.rglob("*.*") if path.suffix != ".pyc"]
    assert {path.relative_to(EXAMPLE).as_posix() for path in new} == {*FILES}
    assert not [path for path in FILES if (package / path).exists()]
    test = extended / "tests" / "analyses" / "test_long_kernels.py"
    paths = os.pathsep.join([str(extended), str(TESTS.parent)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=extended,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout


@needs_pages
def test_the_lists_that_it_belongs_to_are_named(extended: Path):
    """Two of types for editors, and the overview of the pages."""
    said = lacks(extended)
    assert len(said) == len(LISTS)
    for path, sentence in zip(LISTS, said, strict=True):
        assert sentence.startswith("long_kernels is not listed: add a line with ")
        assert sentence.endswith(f" to {path}")


@needs_pages
@pytest.mark.parametrize("path", FILES)
def test_a_file_that_is_missing_is_named(extended: Path, path: str):
    content = (extended / path).read_bytes()
    (extended / path).unlink()
    said = lacks(extended)
    (extended / path).write_bytes(content)
    (sentence,) = {*said} - {*lacks(extended)}
    assert sentence.startswith("long_kernels has no ")
    assert sentence.endswith(f": write {path}")


@needs_pages
def test_a_page_with_another_title_than_the_panel_is_named(extended: Path):
    said = lacking("long_kernels", "LongKernelsPanel", "Longest kernels", extended)
    wrong = "the page of long_kernels is not titled 'Longest kernels'"
    assert f"{wrong}: edit docs/analyses/long_kernels.md" in said


def test_a_kind_of_lane_is_an_object_in_a_list(tmp_path, monkeypatch):
    """Of its own file, and its place in `LANE_KINDS`."""
    kind = type(QUEUE)("twice", "queue length again", QUEUE.lanes, QUEUE.why_none, QUEUE.nothing)
    monkeypatch.setitem(LANE_KINDS, "twice", kind)
    write(tmp_path / "rank0.json", [call(1, 2, 1), kernel(4, 5)])
    panel = TimelinePanel(open_trace(tmp_path, progress=False), lanes=("twice",))
    assert panel.lanes == ("twice",)
    assert [*panel.result.lanes.kinds_without_lanes()] == [*LANE_KINDS]


@needs_pages
def test_what_a_kind_of_lane_lacks_is_named():
    assert lacking_of_lane("twice") == [
        "the lane twice has no row: add it to docs/analyses/timeline.md",
        "the lane twice has no test of its numbers: add it to tests/analyses/test_added_lanes.py",
    ]


@cause(
    seen_in="compute",
    when="More than 10 kernels run.",
    limit="least_percent_with_evidence",
    advice=(Advice("Run fewer."),),
)
def many_kernels(context):
    computing = context.steps["compute"]
    price = context.price(computing, context.computing_less(computing))
    if not context.is_worth_it(many_kernels, price.ns):
        return None
    return context.finding(
        many_kernels,
        words="The GPUs run kernels",
        price=price,
        ranks=context.ranks,
        steps=(),
    )


def test_a_cause_is_a_rule_and_its_place_in_the_order(tmp_path, monkeypatch):
    for rank in range(2):
        events = [kernel(20 * i, 5 * (i + 1)) for i in range(3 + rank)]
        write(tmp_path / f"rank{rank}.json", events)
    monkeypatch.setattr(analysis, "RULES", (many_kernels,))
    monkeypatch.setitem(analysis._CAUSE, "many_kernels", many_kernels)
    (finding,) = diagnose(tmp_path, limits=Limits(least_ms=0))
    assert (finding.cause, finding.ranks) == ("many_kernels", (0, 1))
    assert finding.recoverable_ms == pytest.approx((5 + 10 + 15 + 20) / 1000)


def test_a_cause_of_no_class_is_refused():
    with pytest.raises(ValueError, match="many_kernels names 'idle', which is none of compute, "):
        cause(seen_in="idle", when="", advice=())(many_kernels.look)


def test_a_kernel_rule_is_one_pattern(tmp_path, monkeypatch):
    """Own rules are given where a job is opened; built-in ones are a line of `kernels`."""
    table = load_kineto(write(tmp_path / "rank0.json", [kernel(0, 1, name="my_ring_7")]), 0).events
    rows = table.rows_of(*range(4))

    def types(rules=None):
        return KernelRules.from_user(rules).types(table, rows).tolist()

    assert types() == [KernelType.COMPUTATION]
    assert types({"COMMUNICATION": "my_ring"}) == [KernelType.COMMUNICATION]
    names = (*kernels.COMMUNICATION_NAMES, "my_ring")
    monkeypatch.setattr(kernels, "_BUILT_IN", kernels.built_in_rules(names, kernels.MEMORY_NAMES))
    assert types() == [KernelType.COMMUNICATION]
