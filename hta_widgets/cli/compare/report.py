"""A change as text that fits a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hta_widgets.analyses.budget.classes import CLASS_LABELS
from hta_widgets.diagnosis.change.explain_change import Change
from hta_widgets.diagnosis.change.gate import Judgement
from hta_widgets.diagnosis.change.several import SeveralJobs
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.diagnosis.change.waterfall import level
from hta_widgets.quantities import (
    NS_PER_MS,
    capitalised,
    counted,
    data_size,
    duration,
    number_ranges,
    percent,
    signed,
    with_minus,
)
from hta_widgets.terminal import MARGIN, MOST_CHARACTERS, cut, item, section, wrapped

_WIDTH: Final = 20
_NAME: Final = 24


def report(change: Change, judgement: Judgement | None = None) -> str:
    """Write the verdict, how the jobs differ, where the time went, and broken limits."""
    names = f"{cut(change.first.name, _MOST)} → {cut(change.second.name, _MOST)}"
    lines = [capitalised(change.verdict), "", *wrapped(names)]
    lines += wrapped(change.finding)
    lines += section("How they differ:", [each.sentence for each in change.differences])
    lines += _waterfall(change)
    lines += section("Work per time:", [each.words for each in change.work])
    lines += section(f"{change.causes_title}:", [e.words for e in change.causes])
    if judgement is not None:
        lines += section("Broken limits:", judgement.broken)
        lines += section("Limits that cannot be checked:", judgement.untold)
        if judgement.outcome == "passed":
            lines += ["", f"{MARGIN}All limits are kept."]
    said = {each.sentence for each in change.differences}
    lines += section("Notices:", [notice for notice in change.notices if notice not in said])
    return "\n".join(lines) + "\n"


_MOST: Final = MOST_CHARACTERS // 4


def _waterfall(change: Change) -> Iterator[str]:
    """The classes of a step in both jobs, and their differences, which add up."""
    if change.waterfall.empty:
        return
    yield ""
    yield f"{MARGIN}{'ms':{_WIDTH}}{'first':>12}{'second':>12}{'change':>12}"
    rows = level(change.waterfall, "class")
    for row in rows.to_dict("records"):
        yield _row(CLASS_LABELS[row["class"]], row["first_ns"], row["second_ns"])
    yield _row("all", change.first.mean_ns, change.second.mean_ns)


def _row(label: str, first_ns: int, second_ns: int) -> str:
    cells = [ns / NS_PER_MS for ns in (first_ns, second_ns)]
    change = changed_ms(first_ns, second_ns)
    return f"{MARGIN}{label:{_WIDTH}}{cells[0]:12,.3f}{cells[1]:12,.3f}{change:>12}"


def changed_ms(first_ns: int, second_ns: int) -> str:
    """A change in ms with its sign; one that rounds to zero is ``+0.000``, never ``−0.000``.

    Examples
    --------
    >>> changed_ms(1_000, 600), changed_ms(1_000, 400)
    ('+0.000', '−0.001')
    """
    return with_minus(f"{round((second_ns - first_ns) / NS_PER_MS, 3) + 0.0:+,.3f}")


def baseline_text(summary: Summary) -> str:
    """Write what a baseline keeps of a job."""
    known = summary.environment
    ranks = counted(len(known["ranks"]), "rank")
    which = f" ({number_ranges(known['ranks'])})" if known["ranks"] else ""
    steps = counted(len(summary.steps), "step") if known["steps_marked"] else "no marked steps"
    lines = [*wrapped(cut(summary.name, MOST_CHARACTERS))]
    lines += wrapped(f"{ranks}{which}, {steps}, {duration(summary.mean_ns)} {summary.unit}")
    lines += wrapped(f"GPU: {', '.join(known['gpus']) or 'not recorded'}")
    if summary.memory_bytes >= 0:
        lines += wrapped(f"memory at its peak: {data_size(summary.memory_bytes)}")
    versions = [f"{name.replace('_', ' ')} {text}" for name, text in known["versions"].items()]
    lines += wrapped(", ".join([*versions, f"hta_widgets {known['hta_widgets']}"]))
    findings = [str(each["sentence"]) for each in summary.findings]
    lines += section("Findings:", findings) or ["", *item("", "No finding")]
    return "\n".join(lines) + "\n"


def several_report(found: SeveralJobs) -> str:
    """Write the finding, a row for each job, where the time of each goes, and what changed."""
    lines = wrapped(found.finding)
    lines += ["", f"{MARGIN}{'':{_NAME}}{'steps':>6}{'ms per step':>13}{'change':>10}  verdict"]
    for number, row in enumerate(found.table.to_dict("records"), start=1):
        steps, mean, change, verdict = row_of_job(row)  # type: ignore[arg-type]
        name = cut(f"{number} {row['job']}", _NAME - 1)
        lines.append(f"{MARGIN}{name:{_NAME}}{steps:>6}{mean:>13}{change:>10}  {verdict}".rstrip())
    numbers = "".join(f"{number:>13}" for number in range(1, len(found.jobs) + 1))
    lines += ["", f"{MARGIN}{'ms of a step, by job':{_NAME}}{numbers}"]
    for label, of_jobs in (found.times / NS_PER_MS).iterrows():
        cells = "".join(f"{value:>13,.3f}" for value in of_jobs)
        lines.append(f"{MARGIN}{label!s:{_NAME}}{cells}")
    said = [f"{each.second.name}: {each.finding}" for each in found.changes]
    lines += section("Each compared with the first:", [cut(each, MOST_CHARACTERS) for each in said])
    return "\n".join(lines) + "\n"


def row_of_job(row: dict[str, Any]) -> list[str]:
    """Cells of a job: its steps, mean, change and verdict."""
    mean = f"{row['mean_ns'] / NS_PER_MS:,.3f}"
    return [f"{row['steps']:,}", mean, signed(row["change_percent"], percent), row["verdict"]]
