"""Static HTML of a dashboard, for saved notebooks that are shown without widgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

import pandas as pd

from hta_widgets.names.readable import distinct_labels
from hta_widgets.panels.bands.messages import Bands
from hta_widgets.panels.base.protocol import View
from hta_widgets.panels.base.summary import (
    ROWS,
    SUMMARY_BYTES,
    findings_table,
    html_summary,
    image,
    table_of_texts,
)
from hta_widgets.quantities import duration

_COLUMNS: Final = ("name", "count", "total_ns")

_WIDTH: Final = 80
"""Maximum characters of a kernel name."""


def dashboard_summary(
    title: str,
    header: View,
    bands: Bands,
    *,
    budget: Mapping[str, str],
    timeline: str,
    kernels: pd.DataFrame | None,
) -> str:
    """Job, findings, budget, timeline and the kernels with the most time, as escaped HTML.

    The header is the view of the job's panel. The budget is pictures of where a step goes, as SVG,
    by title; empty if they failed. A timeline that is too large is left out. The kernels are None
    if the diagnosis failed, in which case `bands` says why.
    """
    said = " · ".join([header["finding"].removesuffix("."), *bands["facts"]])
    parts = [html_summary(title, {**header, "finding": said, "table": None}, {}, SUMMARY_BYTES)]
    parts += [_paragraph(bands["error"] or ""), _paragraph(bands["said"])]
    parts.append(findings_table([*bands["findings"], *bands["to_try"]]))
    parts += [image(picture, title) for title, picture in budget.items()]
    parts.append(timeline)
    if kernels is not None:
        parts.append(_kernels(kernels))
    return "".join(_fitting(parts))


def _fitting(parts: Iterable[str]) -> Iterable[str]:
    left = SUMMARY_BYTES
    for part in parts:
        size = len(part.encode(errors="replace"))
        if size <= left:
            left -= size
            yield part


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def _unbroken(ns: float) -> str:
    return duration(ns).replace(" ", "\N{NO-BREAK SPACE}")


def _kernels(table: pd.DataFrame) -> str:
    names, counts, times = (table.head(ROWS)[name].tolist() for name in _COLUMNS)
    rows = [
        (name, f"{count:,}", _unbroken(total_ns), _unbroken(total_ns / count))
        for name, count, total_ns in zip(distinct_labels(names, _WIDTH), counts, times, strict=True)
    ]
    if not rows:
        return ""
    return table_of_texts(("Kernel", "Count", "Time on all ranks", "Mean"), rows)
