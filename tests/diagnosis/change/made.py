"""Summaries of jobs that were never recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.diagnosis.change.summary import COLUMNS, Summary
from hta_widgets.diagnosis.change.time_spent import KEYS

ENVIRONMENT: dict[str, Any] = {
    "world_size": 1,
    "ranks": [0],
    "gpus": ["GPU"],
    "steps_marked": True,
    "versions": {},
    "recorded": {
        "kernels": True,
        "host_code": True,
        "frames": True,
        "memory": False,
        "collectives": True,
    },
    "hta_widgets": "0",
}

Row = tuple[str, str, str, str, int]


def job_of(rows: Iterable[Row], *, steps: int = 5, noise: float = 0.0, **given: Any) -> Summary:
    """A job whose mean step is made of rows: part, module, operator, kernel and time (ns).

    Steps differ by ``noise``, in parts of their length; other arguments are fields of the summary,
    or of its environment.
    """
    every = [*rows]
    sums: dict[tuple[str, ...], int] = {}
    for part, module, operator, kernel, ns in every:
        key = (part, module, operator, "", kernel)
        sums[key] = sums.get(key, 0) + ns * steps
    spent = pd.DataFrame([*sums], columns=[*KEYS]).astype(object)
    spent["count"] = np.full(len(sums), steps, dtype=np.int64)
    spent["time_ns"] = np.array([*sums.values()], dtype=np.int64)
    whole = sum(ns for *_, ns in every)
    of_part = {name: sum(ns for part, *_, ns in every if part == name) for name in COLUMNS}
    kernels = [
        (kernel, step, 1, ns)
        for part, _, _, kernel, ns in every
        if part == "compute"
        for step in range(steps)
    ]
    table = pd.DataFrame(
        {
            "step": np.arange(steps),
            "job_ns": [round(whole * (1 + noise * (each % 3 - 1))) for each in range(steps)],
            "period_ns": np.full(steps, whole),
            **{name: np.full(steps, ns) for name, ns in of_part.items()},
        }
    ).astype(np.int64)
    known = {name: given.pop(name) for name in [*given] if name in ENVIRONMENT}
    fields: dict[str, Any] = {
        "name": "job",
        "environment": {**ENVIRONMENT, **known},
        "steps": table,
        "spent": spent,
        "kernels": pd.DataFrame(kernels, columns=["kernel", "step", "count", "total_ns"]),
        "labels": {},
        "findings": (),
        "status": "healthy",
        "doubts": (),
        "left_out": (),
        "lacks": (),
        "memory_bytes": -1,
        "work": {
            "kernels and copies": steps * sum(part in ("compute", "memory") for part, *_ in every)
        },
    }
    return Summary(**{**fields, **given})


def finding(cause: str, ms: float, *ranks: int) -> dict[str, Any]:
    """A finding, as a summary has it."""
    return {
        "cause": cause,
        "ranks": [*ranks] or [0],
        "recoverable_ms": ms,
        "bound": "measured",
        "percent": 1.0,
        "sentence": f"{cause}: {ms} ms.",
        "confidence": "measured",
    }
