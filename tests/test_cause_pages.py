"""Every cause has a page, which says what may be advised, and what was measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hta_widgets.diagnosis import Finding
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.finding import Advice
from tests.cause_pages import (
    INDEX,
    MOST_APART,
    PAGES,
    WHY_APART,
    completed,
    index,
    measured_on,
    page_of,
)
from tests.generated_docs import PAGE
from tests.test_docs import HEADING, text_of

ROOT = Path(__file__).parents[1]
SECTIONS = ["Symptom", "Proof", "What it is not", "What to do", "Before and after"]
EACH = pytest.mark.parametrize("cause", ALL_CAUSES, ids=lambda each: each.name)


def test_every_cause_has_its_page_and_no_page_is_left_over():
    pages = {each.stem for each in PAGES.iterdir() if each != INDEX}
    assert pages == {each.name for each in ALL_CAUSES}


def test_the_list_of_pages_is_linked_and_as_they_are():
    assert INDEX.read_text(encoding="utf-8") == index(), "run `python -m tests.generated_docs`"
    assert f"({INDEX.parent.name}/{INDEX.name})" in PAGE.read_text(encoding="utf-8")


@EACH
def test_a_finding_leads_to_the_page_of_its_cause(cause):
    finding = Finding(
        cause=cause.name,
        ranks=(),
        steps=(),
        sentence="It is slow.",
        recoverable_ms=1.0,
        percent=1.0,
        advice=(Advice("Mend it."),),
    )
    assert ROOT / finding.page == page_of(cause)
    assert finding.to_dict()["page"] == finding.page


@EACH
def test_a_page_has_its_sections_and_all_advice(cause):
    page = page_of(cause)
    assert HEADING.findall(text_of(page))[1:] == SECTIONS
    text = page.read_text(encoding="utf-8")
    assert f"*`{cause.name}`: " in text
    assert text == completed(text, cause, measured_on(text)), "run `python -m tests.generated_docs`"


@EACH
def test_a_page_whose_price_is_not_what_the_twin_gains_says_why(cause):
    page = page_of(cause).read_text(encoding="utf-8")
    said = measured_on(page)
    gained_ms = said.before_ms - said.after_ms
    is_apart = abs(said.price_ms - gained_ms) > MOST_APART * gained_ms
    assert is_apart == (cause.name in WHY_APART)


@EACH
def test_a_page_says_each_thing_to_do_once(cause):
    said = re.findall(r"^- (.+?\.)(?: \*\(.+\)\*)?$", page_of(cause).read_text(), re.MULTILINE)
    assert sorted(said) == sorted({each.do for each in cause.advice})
