"""A change as Markdown that fits a pull-request comment."""

from __future__ import annotations

import re
from typing import Final

from hta_widgets.analyses.budget.classes import CLASS_LABELS
from hta_widgets.cli.compare.report import changed_ms, row_of_job
from hta_widgets.diagnosis.change.explain_change import Change
from hta_widgets.diagnosis.change.gate import Judgement
from hta_widgets.diagnosis.change.several import SeveralJobs
from hta_widgets.diagnosis.change.waterfall import level
from hta_widgets.quantities import NS_PER_MS
from hta_widgets.terminal import cut, printable

MOST_CHARACTERS: Final = 600
"""Longest text that may hold names from a trace."""

MOST_LISTED: Final = 10

_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]()#+!|~<>&@$:])")


def markdown(change: Change, judgement: Judgement | None = None) -> str:
    """Write the verdict, broken limits, a table of the classes, causes and differences."""
    lines = [f"### hta-widgets: {change.verdict}", "", plain(change.finding), ""]
    if judgement is not None:
        for title, texts in (
            ("Broken limits", judgement.broken),
            ("Limits that cannot be checked", judgement.untold),
        ):
            lines += _listed(title, texts)
        if judgement.outcome == "passed":
            lines += ["All limits are kept.", ""]
    lines += ["| ms per step | first | second | change |", "|:--|--:|--:|--:|"]
    for row in level(change.waterfall, "class").to_dict("records"):
        lines.append(_row(CLASS_LABELS[row["class"]], row["first_ns"], row["second_ns"]))
    lines += [_row("**all**", change.first.mean_ns, change.second.mean_ns), ""]
    lines += _listed("Work per time", [each.words for each in change.work])
    lines += _listed(change.causes_title, [e.words for e in change.causes])
    lines += _listed("How the jobs differ", [each.sentence for each in change.differences])
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line: names come from traces.

    Examples
    --------
    >>> plain("<b> @everyone [x](y)")
    '\\<b\\> \\@everyone \\[x\\]\\(y\\)'
    """
    return _ACTIVE.sub(r"\\\1", cut(printable(text), MOST_CHARACTERS))


def several_markdown(found: SeveralJobs) -> str:
    """Several jobs as Markdown that fits a pull-request comment."""
    lines = ["### hta-widgets: several jobs", "", plain(found.finding), ""]
    lines += ["| job | steps | ms per step | change | verdict |", "|:--|--:|--:|--:|:--|"]
    for row in found.table.to_dict("records"):
        cells = [plain(str(row["job"])), *row_of_job(row)]  # type: ignore[arg-type]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for each in found.changes:
        lines.append(f"- {plain(each.second.name)}: {plain(each.finding)}")
    return "\n".join(lines) + "\n"


def _listed(title: str, texts: tuple[str, ...] | list[str]) -> list[str]:
    if not texts:
        return []
    more = [f"- and {len(texts) - MOST_LISTED} more"] if len(texts) > MOST_LISTED else []
    return [f"{title}:", "", *(f"- {plain(each)}" for each in texts[:MOST_LISTED]), *more, ""]


def _row(label: str, first_ns: int, second_ns: int) -> str:
    cells = [f"{ns / NS_PER_MS:,.3f}" for ns in (first_ns, second_ns)]
    return f"| {label} | {cells[0]} | {cells[1]} | {changed_ms(first_ns, second_ns)} |"
