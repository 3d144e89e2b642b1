"""A diagnosis as JSON, for programs: ``docs/diagnosis.schema.json`` describes it.

It is small enough for an assistant to read whole: at most about 5,000 tokens for eight ranks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.server_steps import server_steps, step_source
from hta_widgets.analyses.time.rows import records
from hta_widgets.analyses.time.window import lead_in_ns
from hta_widgets.diagnosis import Diagnosis, Finding, Proof
from hta_widgets.diagnosis.finding import MOST_SHOWN
from hta_widgets.quantities import NS_PER_MS
from hta_widgets.terminal import cut
from hta_widgets.trace.ranks.replayed_calls import joined_replays
from hta_widgets.version import __version__

SCHEMA_VERSION: Final = 3
"""Version of the document: raised when a program that reads it would have to change."""

MOST_RANKS: Final = 16
"""Rows of the table of steps: in a bigger job, the ranks with the most own time."""

MOST_ROWS: Final = 3
"""Maximum rows of a table of evidence, which only the first findings have."""

MOST_LARGEST: Final = 5
"""Rows of the table of idle-time owners, and of the table of kernels."""

MOST_NOTICES: Final = 10
MOST_CHARACTERS: Final = 120
"""Maximum length of a name."""

MOST_CHARACTERS_OF_A_NOTICE: Final = 200
MOST_CHARACTERS_OF_A_VERDICT: Final = 1_000
"""The cause that names the largest kernels of a job without findings."""

_OF_TO_TRY: Final = ("cause", "sentence", "recoverable_ms", "percent", "bound", "advice")

DIGITS: Final = 4
"""Decimal places of times in ms."""

DIGITS_OF_PERCENT: Final = 2


def json_text(diagnosis: Diagnosis) -> str:
    """Write the document in ASCII, with a line for each finding and each rank."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {_value(value)}" for name, value in document(diagnosis).items()
    )
    return f"{{\n{lines}\n}}\n"


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Build what `json_text` writes."""
    lacks = [each.sentence for each in diagnosis.not_recorded]
    steps = sorted(number for number in {*diagnosis.steps["step"].tolist()} if number >= 0)
    return {
        "schema_version": SCHEMA_VERSION,
        "hta_widgets_version": __version__,
        "job": cut(diagnosis.job.name, MOST_CHARACTERS),
        "cycle": diagnosis.job.cycle if len(diagnosis.job.cycles) > 1 else None,
        "status": diagnosis.status,
        "kind": cut(diagnosis.job.kind, MOST_CHARACTERS_OF_A_NOTICE),
        "step_marks": step_source(diagnosis.job),
        "phase": diagnosis.phase or None,
        "phases": _phases(diagnosis),
        "lead_in_ms": _lead_in_ms(diagnosis),
        "captures": _captures(diagnosis),
        "verdict": cut(diagnosis.finding, MOST_CHARACTERS_OF_A_VERDICT),
        "ranks": list(diagnosis.ranks),
        "steps": steps,
        "health": {
            "is_sound": diagnosis.health.is_sound,
            "doubts": [cut(each, MOST_CHARACTERS_OF_A_NOTICE) for each in diagnosis.health.doubts],
        },
        "left_out_steps": list(diagnosis.left_out_steps),
        "step_ms": round(diagnosis.step_ns / NS_PER_MS, DIGITS),
        "profiler_ms": round(diagnosis.profiler_ns / NS_PER_MS, DIGITS),
        "period_ms": round(diagnosis.period_ns / NS_PER_MS, DIGITS),
        "bound_by": diagnosis.bound_by,
        "critical_path_percent": {
            name: round(share, DIGITS_OF_PERCENT) for name, share in diagnosis.shares.items()
        },
        "joint_ms": round(diagnosis.joint_ms, DIGITS),
        "explained_percent": round(diagnosis.explained_percent, DIGITS_OF_PERCENT),
        "unmatched_percent": round(diagnosis.unmatched_percent, DIGITS_OF_PERCENT),
        "host_ns": _host_ns(diagnosis),
        "findings": [
            _finding(finding, diagnosis.proof(finding), with_tables=place < MOST_SHOWN)
            | ({"phase": diagnosis.phase} if diagnosis.phase else {})
            for place, finding in enumerate(diagnosis)
        ],
        "to_try": [
            {key: value for key, value in each.to_dict().items() if key in _OF_TO_TRY}
            for each in diagnosis.to_try
        ],
        "mean_step_by_rank": _mean_step_by_rank(diagnosis),
        "idle_owners": _largest(diagnosis, _idle_owners, ["name", "cause", "idle_ms", "percent"]),
        "kernels": _largest(diagnosis, _kernels, ["name", "type", "total_ms", "percent"]),
        "cpu_work": _cpu_work(diagnosis),
        "not_recorded": [each._asdict() for each in diagnosis.not_recorded],
        "notices": [
            cut(each, MOST_CHARACTERS_OF_A_NOTICE)
            for each in diagnosis.notices
            if each not in lacks
        ][:MOST_NOTICES],
    }


def _phases(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Phases of inference servers."""
    table = server_steps(diagnosis.job).phases
    return [
        {
            "rank": int(row["rank"]),
            "phase": row["phase"],
            "steps": int(row["steps"]),
            "step_ms": _known(row["period_ns"] / NS_PER_MS),
            "busy_percent": _known(row["busy_percent"]),
            "share_percent": _known(row["share_percent"]),
            "requests": _known(row["requests"]),
            "gap_before_ms": _known(row["gap_before_ns"] / NS_PER_MS),
            "gap_inside_ms": _known(row["gap_inside_ns"] / NS_PER_MS),
            "ms_per_output_token": _known(row["output_token_ns"] / NS_PER_MS),
            "output_tokens_per_s": _known(row["output_tokens_per_s"]),
            "prompt_tokens_per_s": _known(row["prompt_tokens_per_s"]),
        }
        for row in records(table)[:MOST_RANKS]
    ]


def _lead_in_ms(diagnosis: Diagnosis) -> float:
    """The longest time that a GPU first spends on work launched before the recording."""
    found = diagnosis.job.reduce(lead_in_ns, diagnosis.ranks)
    return round(max(found.values(), default=0) / NS_PER_MS, DIGITS)


def _captures(diagnosis: Diagnosis) -> dict[str, int] | None:
    """Count graph replays, and those with the calls of their captures; None without captures."""
    counts = [*diagnosis.job.reduce(joined_replays, diagnosis.ranks).values()]
    joined, replays = (sum(each) for each in zip(*counts, strict=True)) if counts else (0, 0)
    return {"replays": replays, "joined": joined} if replays else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, DIGITS)


def _host_ns(diagnosis: Diagnosis) -> int | None:
    """Host time of the mean rank in the mean step; None without GPU work."""
    steps = diagnosis.steps
    return None if steps.empty else round(float(steps["host_ns"].mean()))


def _largest_ranks(diagnosis: Diagnosis) -> list[int]:
    """All ranks, or in a bigger job those with the most own time."""
    own_ns = diagnosis.steps.groupby("rank")["own_ns"].mean()
    return sorted(own_ns.nlargest(MOST_RANKS).index.tolist())


def _idle_owners(diagnosis: Diagnosis, ranks: list[int]) -> pd.Series[int]:
    """Idle time (ns) by the call that it belongs to and its cause."""
    owners = idle_owners(diagnosis.job, ranks).owners
    return owners.groupby(["owner", "cause"], observed=True)["idle_ns"].sum()


def _kernels(diagnosis: Diagnosis, ranks: list[int]) -> pd.Series[int]:
    """Time (ns) of kernels, copies and memsets by name and type."""
    every = kernel_breakdown(diagnosis.job, ranks).every_kernel
    return every.groupby(["name", "kernel_type"], observed=True)["sum_ns"].sum()


def _largest(
    diagnosis: Diagnosis,
    sums_of: Callable[[Diagnosis, list[int]], pd.Series[int]],
    columns: list[str],
) -> dict[str, Any]:
    """The largest sums (ns) with their two keys, in ms and in percent of the total."""
    ranks = _largest_ranks(diagnosis)
    if not ranks:
        return {"columns": columns, "rows": [], "row_count": 0}
    sums = sums_of(diagnosis, ranks)
    most, whole_ns = sums.nlargest(MOST_LARGEST), int(sums.sum())
    rows = [
        [_plain(each) for each in (*keys, ns / NS_PER_MS, 100 * ns / whole_ns if whole_ns else 0.0)]
        for keys, ns in zip(most.index.tolist(), most.tolist(), strict=True)
    ]
    return {"columns": columns, "rows": rows, "row_count": len(sums)}


def _cpu_work(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """What the CPUs did, if there is no GPU work."""
    if diagnosis.cpu_work is None:
        return None
    memory = cut(diagnosis.cpu_work.memory, MOST_CHARACTERS_OF_A_NOTICE)
    return {**_plain(diagnosis.cpu_work.to_dict()), "memory": memory}


def _finding(finding: Finding, proof: Proof, *, with_tables: bool) -> dict[str, Any]:
    tables = {
        name: _table(value)
        for name, value in finding.evidence.items()
        if isinstance(value, pd.DataFrame) and with_tables
    }
    scalars = finding.to_dict()
    return scalars | {
        "advice": scalars["advice"] if with_tables else [],
        "evidence": {**_plain(scalars["evidence"]), **tables},
        "seen": _densest(proof),
    }


def _densest(proof: Proof) -> dict[str, Any] | None:
    """The window that shows most of a finding; None if no window shows it."""
    if proof.windows.empty:
        return None
    first = proof.windows.iloc[0]
    return {
        "start_ns": int(first["start_ns"]),
        "end_ns": int(first["end_ns"]),
        "ranks": list(first["ranks"]),
        "percent": round(float(first["percent"]), DIGITS_OF_PERCENT),
    }


def _table(table: pd.DataFrame) -> dict[str, Any]:
    """The first rows of a table, and how many it has."""
    rows = table.head(MOST_ROWS).itertuples(index=False, name=None)
    return {
        "columns": [str(name) for name in table.columns],
        "rows": [[_plain(cell) for cell in row] for row in rows],
        "row_count": len(table),
    }


def _mean_step_by_rank(diagnosis: Diagnosis) -> dict[str, Any]:
    """What each rank does in its mean step, in ms, in columns that add up to the period."""
    parts = [f"{name}_ns" for name in ("own", "period", *PARTS)]
    gaps = [name for name in diagnosis.steps if str(name).startswith("gap_")]
    means = diagnosis.steps.groupby("rank")[[*parts, *gaps]].mean() / NS_PER_MS
    most = means.nlargest(MOST_RANKS, "own_ns").sort_index()
    return {
        "columns": ["rank", *(f"{str(name).removesuffix('_ns')}_ms" for name in means)],
        "rows": [
            [rank, *(round(value, DIGITS) for value in row)]
            for rank, row in zip(most.index.tolist(), most.to_numpy().tolist(), strict=True)
        ],
        "row_count": len(means),
    }


def _plain(value: Any) -> Any:  # noqa: ANN401
    """The value as JSON can hold it; NaN becomes None."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if value is pd.NA else cut(str(value), MOST_CHARACTERS)


def _value(value: Any) -> str:  # noqa: ANN401
    """JSON of a value, with each object of a list, and each row, on its own line."""
    if isinstance(value, dict) and "rows" in value:
        rest = {name: each for name, each in value.items() if name != "rows"}
        return f'{_compact(rest)[:-1]}, "rows": {_lines(value["rows"])}}}'
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _lines(value)
    return _compact(value)


def _lines(values: Sequence[Any]) -> str:
    if not values:
        return "[]"
    return "[\n" + ",\n".join(map(_compact, values)) + "\n]"


def _compact(value: Any) -> str:  # noqa: ANN401
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
