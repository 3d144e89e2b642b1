"""What the pages link to, and the files that they name, are there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from hta_widgets.cli import main
from hta_widgets.diagnosis import Limits
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.sample import write_sample
from tests.diagnosis.recorder_faults.table import PAGE as FAULTS_PAGE
from tests.diagnosis.recorder_faults.table import Table
from tests.gallery import PAGE as GALLERY
from tests.gallery import with_verdicts
from tests.generated_docs import PAGE, ROW, SCHEMA, page_with_causes, schema_with_causes

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("benchmarks/*.md")])
ANALYSES = sorted((ROOT / "docs" / "analyses").glob("*.md"))
SOURCES = ("hta_widgets", "js", "tests", "docs", "benchmarks", "notebooks")
INSTALLED = ROOT / "js" / "node_modules"

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
SOURCE = re.compile(r"`([\w./-]+(?:\.(?:py|ts|mjs|txt|md|ipynb)|/))`")


def text_of(page):
    """The page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """Names that GitHub gives to the headings of a page."""
    seen = Counter()
    for heading in HEADING.findall(text_of(page)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        yield f"{slug}-{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1


def is_broken(page, link):
    if re.match(r"[a-z]+:", link):
        return False
    path, _, anchor = link.partition("#")
    target = (page.parent / path) if path else page
    return not target.exists() or (anchor != "" and anchor not in anchors(target))


@pytest.fixture(scope="module")
def sources():
    """Files and folders of the project, as the end of a path names them."""
    inside = [path for top in SOURCES for path in [ROOT / top, *(ROOT / top).rglob("*")]]
    found = [*ROOT.glob("*.md"), *inside]
    return [f"/{path.relative_to(ROOT)}" for path in found if INSTALLED not in path.parents]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert [link for link in LINK.findall(text_of(page)) if is_broken(page, link)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sources_that_a_page_names_are_there(page, sources):
    named = [name.rstrip("/") for name in SOURCE.findall(text_of(page))]
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in sources)] == []


def test_the_site_lists_every_page():
    """Stage `site` says so too, but later. Causes and analyses are listed by their folders."""
    listed = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    lacking = [page for page in pages if not re.search(rf"(^|<){page}>?$", listed, re.MULTILINE)]
    assert lacking == [], "name them in docs/index.md"


@pytest.mark.parametrize("page", ANALYSES, ids=lambda page: page.stem)
def test_an_analysis_has_the_same_name_everywhere(page):
    title = HEADING.findall(text_of(page))[0]
    overview, readme = (text_of(ROOT / name) for name in ("docs/README.md", "README.md"))
    assert f"[{title}](analyses/{page.name})" in overview
    said = re.findall(rf"\[([^\]]+)\]\(docs/analyses/{page.name}\)", readme)
    assert {*said} <= {f"{title[0].lower()}{title[1:]}"}


def test_the_causes_of_a_diagnosis_are_on_its_page_with_their_limits():
    page, schema = (path.read_text(encoding="utf-8") for path in (PAGE, SCHEMA))
    old = "the docs do not list the causes as they are: run `python -m tests.generated_docs`"
    assert page == page_with_causes(page), old
    assert schema == schema_with_causes(schema), old
    assert max(len(each.when.split()) for each in ALL_CAUSES) <= 45, "details belong on its page"
    limits = Limits()
    assert f"nothing below {limits.least_ms:g} ms" in page
    said = {name: when for name, when, _ in ROW.findall(page)}
    for cause, words in {
        "slow_gpu": f"{limits.slower_kernels:g} times",
        "gpu_throttling": f"{limits.slower_than_itself:g} times",
        "workload_imbalance": f"{limits.more_work:g} times",
        "stage_imbalance": f"{limits.more_work_of_stage:g} times",
        "expert_imbalance": f"{limits.uneven_exchange:g} times",
        "slow_link": f"{limits.slower_link:g} times",
        "no_tensor_cores": f"{limits.float32_percent:g} %",
        "unfused_elementwise": f"{limits.elementwise_percent:g} %",
    }.items():
        assert words in said[cause], cause
    assert f"{limits.slower_in_most_steps_percent:g} %" in said["slow_gpu"]
    assert f"{limits.overloaded_rank:g} times" in said["expert_imbalance"]
    assert f"{limits.slower_link_us:g} µs" in said["slow_link"]


def test_the_faults_of_recorders_are_on_their_page_as_they_were_counted():
    page = FAULTS_PAGE.read_text(encoding="utf-8")
    assert page == Table.read().in_page(page), "run `python -m tests.generated_docs`"


def printed_in(page: str, before: str) -> list[str]:
    """Lines of the block that follows some words."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(before)[2].split("```")[1].strip("\n").splitlines()


def test_the_first_verdict_of_a_newcomer_is_that_of_the_sample_job(tmp_path, capsys):
    """Whoever changes a sentence copies the new output of the command into the page."""
    lines = printed_in("docs/start.md", "hta-widgets diagnose hta_widgets_demo/trace\n```")
    write_sample(tmp_path / "trace", progress=False)
    main(["diagnose", str(tmp_path / "trace")])
    assert lines == capsys.readouterr().out.splitlines()[: len(lines)]


def test_the_first_diagnosis_of_the_readme_is_that_of_a_public_trace(real_traces, capsys):
    lines = printed_in("README.md", "The same verdict in a terminal")
    main(["diagnose", str(real_traces / "more" / "dlrm_8rank")])
    assert lines == capsys.readouterr().out.splitlines()[: len(lines)]


@pytest.mark.usefixtures("real_traces")
def test_the_gallery_has_the_verdicts_of_today():
    page = GALLERY.read_text(encoding="utf-8")
    assert page == with_verdicts(page), "run `python -m tests.gallery`"


def test_a_broken_link_is_found():
    readme = ROOT / "README.md"
    assert is_broken(readme, "docs/nothing.md")
    assert is_broken(readme, "docs/inputs.md#nothing")
    assert is_broken(readme, "#nothing")
    assert not is_broken(readme, "docs/inputs.md#traces-by-url")
    assert not is_broken(readme, "https://example.com")
