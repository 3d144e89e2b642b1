"""What the diagnosis says of every real trace, and whether the files support it.

A verdict changes on purpose only, and the commit says why::

    python -m tests.golden.test_verdicts   # writes verdicts.json and docs/verdicts.md anew

A verdict that changed loses its grade: somebody reads the files again (`raw_facts` helps), and
writes into ``verdicts.json`` whether it is ``right``, ``misleading`` or ``wrong``, and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REAL_TRACES
from tests.golden.reference import diagnosed
from tests.golden.verdict_page import PAGE, row, write_page

VERDICTS = Path(__file__).with_name("verdicts.json")
KNOWN: dict[str, dict[str, Any]] = json.loads(VERDICTS.read_text())
PLACES = ("kineto/*", "more/*", "converted/*/*_*", "nsys/*.sqlite")
GRADES = {"right", "misleading", "wrong"}


def recordings() -> list[str]:
    """Every real recording, by its path below the folder of real traces."""
    found = (path for place in PLACES for path in REAL_TRACES.glob(place))
    return sorted(path.relative_to(REAL_TRACES).as_posix() for path in found)


def verdict(recording: str) -> dict[str, Any]:
    """What the diagnosis says of a recording: status, causes, ranks, and prices to 3 digits."""
    found = diagnosed(REAL_TRACES / recording)
    return {
        "status": found.status,
        "findings": [
            {
                "cause": each.cause,
                "ranks": list(each.ranks),
                "ms": float(f"{each.recoverable_ms:.3g}"),
                "percent": float(f"{each.percent:.3g}"),
                "confidence": each.confidence,
            }
            for each in found.findings
        ],
    }


def with_grade(found: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """A verdict with the grade that it has, or without one if it changed since it was read."""
    is_same = found == {name: known.get(name) for name in found}
    read = {name: known.get(name, "") if is_same else "" for name in ("grade", "because")}
    return {**found, **read}


def test_every_real_trace_has_a_golden_verdict(real_traces):  # noqa: ARG001
    assert recordings() == sorted(KNOWN)


@pytest.mark.parametrize("recording", KNOWN)
def test_the_verdict_on_a_real_trace(real_traces, recording):  # noqa: ARG001
    known = KNOWN[recording]
    assert verdict(recording) == {name: known[name] for name in ("status", "findings")}


def test_somebody_has_read_the_files_behind_each_verdict():
    assert all(each["grade"] in GRADES and each["because"] for each in KNOWN.values())


@pytest.mark.parametrize("recording", KNOWN)
def test_the_docs_say_how_each_verdict_was_graded(real_traces, recording):  # noqa: ARG001
    assert row(recording, KNOWN[recording]) in PAGE.read_text(encoding="utf-8")


def test_only_who_records_with_pytorch_is_advised_to_use_its_profiler(real_traces):  # noqa: ARG001
    """The same job, as PyTorch's profiler recorded it and as an export of Nsight Systems."""
    advises = []
    for recording in ("kineto/h100_bert", "converted/h100_bert/nsys_sqlite"):
        found = diagnosed(REAL_TRACES / recording)
        (said,) = (each for each in found.notices if "the profiler's own time" in each)
        advises.append("hta_widgets.profile" in said)
    assert advises == [True, False]


if __name__ == "__main__":
    graded = {name: with_grade(verdict(name), KNOWN.get(name, {})) for name in recordings()}
    lines = (
        f"  {json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}"
        for name, each in graded.items()
    )
    VERDICTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    write_page(graded)
