"""What the pages link to, and the files that they name, are there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("page", ANALYSES, ids=lambda page: page.stem)
def test_an_analysis_has_the_same_name_everywhere(page):
    title = HEADING.findall(text_of(page))[0]
    overview, readme = (text_of(ROOT / name) for name in ("docs/README.md", "README.md"))
    assert f"[{title}](analyses/{page.name})" in overview
    assert f"[{title[0].lower()}{title[1:]}](docs/analyses/{page.name})" in readme


def test_a_broken_link_is_found():
    readme = ROOT / "README.md"
    assert is_broken(readme, "docs/nothing.md")
    assert is_broken(readme, "docs/inputs.md#nothing")
    assert is_broken(readme, "#nothing")
    assert not is_broken(readme, "docs/inputs.md#traces-by-url")
    assert not is_broken(readme, "https://example.com")
