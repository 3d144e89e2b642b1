"""A diagnosis as text that fits a terminal, and a pull request.

All that may hold names of a trace is indented by four spaces: Markdown shows it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hta_widgets.analyses.server_steps import recording_in_words
from hta_widgets.diagnosis.context import NS_PER_MS
from hta_widgets.diagnosis.finding import MOST_SHOWN
from hta_widgets.errors import number_ranges
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.terminal import MARGIN, MOST_CHARACTERS, cut, item, section, wrapped

if TYPE_CHECKING:
    from hta_widgets.diagnosis.analysis import Diagnosis
    from hta_widgets.diagnosis.cpu_work import CpuWork
    from hta_widgets.diagnosis.finding import Finding


def report(diagnosis: Diagnosis) -> str:
    """Write findings, what to do about them, and what was not recorded."""
    nothing = "No finding" if diagnosis.cpu_work is None else "No GPU work"
    lines = [counted(len(diagnosis), "finding") if diagnosis else nothing, ""]
    lines += wrapped(_what_was_looked_at(diagnosis))
    lines += wrapped(_what_sets_the_time(diagnosis)) if diagnosis.bound_by else []
    if diagnosis.cpu_work is not None:
        lines += _cpu_work(diagnosis.cpu_work)
    elif not diagnosis:
        lines += wrapped(diagnosis.finding)
    for number, finding in enumerate(diagnosis[:MOST_SHOWN], start=1):
        lines += ["", *_finding(diagnosis, number, finding)]
    if len(diagnosis) > MOST_SHOWN:
        lines += ["", f"{MARGIN}And, at less cost:"]
        for number, finding in enumerate(diagnosis[MOST_SHOWN:], start=MOST_SHOWN + 1):
            lines += item(f"{number}. ", _heading(diagnosis, finding))
    lacks = [each.sentence for each in diagnosis.not_recorded]
    others = [each for each in diagnosis.notices if each not in lacks]
    lines += section("What was not recorded, and how to record it:", lacks)
    lines += section("Notices:", others)
    return "\n".join(lines) + "\n"


def _what_was_looked_at(diagnosis: Diagnosis) -> str:
    steps, name = _recorded_steps(diagnosis), cut(diagnosis.job.name, MOST_CHARACTERS)
    kind = recording_in_words(diagnosis.job)
    name += f" ({kind})" if kind else ""
    if not len(diagnosis.steps):
        return name
    parts = [
        _numbered("rank", diagnosis.ranks),
        f"{_numbered('step', steps)} of {duration(diagnosis.step_ns)}"
        if steps
        else f"a GPU span of {duration(diagnosis.step_ns)}",
    ]
    return f"{name}: {', '.join(parts)}"


def _what_sets_the_time(diagnosis: Diagnosis) -> str:
    """What steps are bound by, and what all findings cost together."""
    bound_by = f"{diagnosis.bound_by[0].upper()}{diagnosis.bound_by[1:]}"
    if len(diagnosis) < 2 or diagnosis.joint_ms <= 0:  # noqa: PLR2004
        return f"{bound_by}."
    left_ns = diagnosis.step_ns - diagnosis.joint_ms * NS_PER_MS
    before, after = duration(diagnosis.step_ns), duration(left_ns)
    return f"{bound_by}. Without all findings together: {before} → {after}."


def _cpu_work(work: CpuWork) -> Iterator[str]:
    """What the CPUs did: operators and lines with most time, data loading, and memory."""
    yield from wrapped(work.no_gpu_work if work.sentences else work.verdict)
    for whole, whole_ns, owners in (
        (work.all_operators, work.operators_ns, work.operators),
        (work.all_lines, work.lines_ns, work.lines),
    ):
        if owners:
            yield from ("", *wrapped(f"{whole}:"))
        for name, own_ns, calls in owners:
            share = percent(100 * own_ns / whole_ns) if whole_ns else percent(0)
            text = f"{duration(own_ns)} ({share}): {cut(name, MOST_CHARACTERS)}"
            yield from item("- ", f"{text}, {counted(calls, 'call')}")
    for text in (work.of_loading, work.memory):
        if text:
            yield from ("", *wrapped(text))


def _finding(diagnosis: Diagnosis, number: int, finding: Finding) -> Iterator[str]:
    mark = f"{number}. "
    yield from item(mark, _heading(diagnosis, finding))
    code = finding.advice[0].code.splitlines()
    for text in (finding.sentence, f"What to do: {finding.action}", *code):
        yield from item(" " * len(mark), text)


def _heading(diagnosis: Diagnosis, finding: Finding) -> str:
    """The price if it is known, the cause, who, and when."""
    price = f"{duration(finding.recoverable_ms * NS_PER_MS)} ({percent(finding.percent)}): "
    known = price if finding.recoverable_ms > 0 else ""
    words = [f"{known}{finding.cause}", _who(diagnosis, finding.ranks)]
    if finding.steps:
        every = {*finding.steps} == {*_recorded_steps(diagnosis)}
        words.append("every step" if every else _numbered("step", finding.steps))
    if finding.confidence == "inconclusive":
        words.append("inconclusive")
    return ", ".join(words)


def _who(diagnosis: Diagnosis, ranks: Sequence[int]) -> str:
    if not ranks:
        return "another rank in each step"
    everybody = len(ranks) > 1 and {*ranks} == {*diagnosis.job.ranks}
    return "all ranks" if everybody else _numbered("rank", ranks)


def _recorded_steps(diagnosis: Diagnosis) -> list[int]:
    """Numbers of the analysed ProfilerSteps; none if none are recorded."""
    return sorted(number for number in {*diagnosis.steps["step"].tolist()} if number >= 0)


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun if len(numbers) == 1 else f'{noun}s'} {number_ranges(numbers)}"
