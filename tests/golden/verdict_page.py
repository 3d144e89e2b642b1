"""The verdicts on real traces as a page of the docs, beside what their files say themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.conftest import REAL_TRACES
from tests.golden.raw_facts import RawFacts, raw_facts

PAGE: Final = Path(__file__).parents[2] / "docs" / "verdicts.md"

_BEGINS, _ENDS = "| recording |", "\n\n"
_STATUS: Final = {
    "healthy": "nothing stands out",
    "cannot_tell": "cannot tell",
    "not_applicable": "not priced: a capture",
    "no_gpu_work": "no GPU work recorded",
}
_PARTS: Final = ("computing", "communicating", "copying", "late", "queued", "unknown")


def write_page(graded: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the rows of all recordings in place of those that the page has."""
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(_BEGINS)
    end = page.index(_ENDS, start)
    rows = "\n".join(row(recording, each) for recording, each in graded.items())
    grades = Counter(each["grade"] for each in graded.values())
    head = f"{_BEGINS} the verdict | the files | grade |\n|---|---|---|---|\n"
    number = ", ".join(f"{grades[grade]} {grade}" for grade in ("right", "misleading", "wrong"))
    PAGE.write_text(
        f"{page[:start]}{head}{rows}\n| all {len(graded)} | | | {number} |{page[end:]}",
        encoding="utf-8",
    )


def row(recording: str, graded: Mapping[str, Any]) -> str:
    """The row of a recording."""
    causes = "; ".join(map(_finding, graded["findings"])) or _STATUS[graded["status"]]
    grade = f"**{graded['grade']}**: {graded['because']}"
    return f"| {recording} | {causes} | {_said(recorded_facts(recording))} | {grade} |"


def recorded_facts(recording: str) -> RawFacts | None:
    """Of the files; what was converted from another recording is read there."""
    place, name, *_ = recording.split("/")
    return _facts_of(REAL_TRACES / (f"kineto/{name}" if place == "converted" else recording))


_facts_of = cache(raw_facts)


def _finding(found: Mapping[str, Any]) -> str:
    sure = "" if found["confidence"] == "measured" else ", inconclusive"
    return f"`{found['cause']}` {found['ms']:,.4g} ms ({found['percent']:.3g} %{sure})"


def _said(facts: RawFacts | None) -> str:
    """The shares of at least 0.5 %, in the order of their columns."""
    if facts is None:
        return "no GPU work"
    shares = [f"{part} {value:.0f} %" for part in _PARTS if (value := getattr(facts, part)) >= 0.5]
    inside = [
        f"{value:.0f} % {where}"
        for where, value in (("blocked", facts.waiting), ("loading", facts.loading))
        if value >= 0.5
    ]
    text = ", ".join(shares) + (f" (of it {', '.join(inside)})" if inside else "")
    return f"{facts.span_ms:,.4g} ms: {text}; longest idle {facts.longest_idle_ms:.3g} ms"
