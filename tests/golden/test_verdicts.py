"""What the diagnosis says of every real trace: status, causes, ranks, and prices to 3 digits.

A verdict changes on purpose only, and the commit says why::

    python -m tests.golden.test_verdicts   # writes verdicts.json anew
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hta_widgets.diagnosis import diagnosis
from hta_widgets.trace.opening.open import open_trace
from tests.conftest import REAL_TRACES

VERDICTS = Path(__file__).with_name("verdicts.json")
PLACES = ("kineto/*", "more/*", "converted/*/*_*", "nsys/*.sqlite")


def recordings() -> list[str]:
    """Every real recording, by its path below the folder of real traces."""
    found = (path for place in PLACES for path in REAL_TRACES.glob(place))
    return sorted(path.relative_to(REAL_TRACES).as_posix() for path in found)


def verdict(recording: str) -> dict[str, Any]:
    """What the diagnosis says of a recording."""
    found = diagnosis(open_trace(REAL_TRACES / recording, progress=False))
    return {
        "status": found.status,
        "findings": [
            {
                "cause": each.cause,
                "ranks": list(each.ranks),
                "ms": float(f"{each.recoverable_ms:.3g}"),
                "confidence": each.confidence,
            }
            for each in found.findings
        ],
    }


def test_every_real_trace_has_a_golden_verdict(real_traces):  # noqa: ARG001
    assert recordings() == sorted(json.loads(VERDICTS.read_text()))


@pytest.mark.parametrize("recording", json.loads(VERDICTS.read_text()))
def test_the_verdict_on_a_real_trace(real_traces, recording):  # noqa: ARG001
    assert verdict(recording) == json.loads(VERDICTS.read_text())[recording]


if __name__ == "__main__":
    found = {recording: verdict(recording) for recording in recordings()}
    lines = (f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
    VERDICTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
