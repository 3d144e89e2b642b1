"""The findings of a diagnosis as rows of a panel, including what *Show* selects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.diagnosis.finding import MOST_SHOWN, Evidence, Finding, LessBy, Link
from hta_widgets.diagnosis.notices import is_whole
from hta_widgets.diagnosis.proof.proof import Proof
from hta_widgets.diagnosis.report import Diagnosis
from hta_widgets.figures.diagnosis import cause_look
from hta_widgets.panels.base.protocol import AdviceRow, FindingRow, Numbers, Occurrence
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.base.table import table_view
from hta_widgets.panels.base.view import format_cell
from hta_widgets.quantities import NS_PER_MS, capitalised, duration, percent
from hta_widgets.trace.job import Job

INCONCLUSIVE: Final = "Inconclusive."
_WHY_LESS: Final[Mapping[LessBy, str]] = {
    "": "",
    "profiler": ", as the rest may be profiler overhead",
    "end": ", as a loop that does not wait for the GPU would lose none of it",
    "moved": ", as other ranks would have to take over some of the work",
    "link": ", as copies from pinned memory still take some time, hidden only if the GPU computes "
    "meanwhile",
}
_UNITS: Final = {
    "ns": "ns",
    "us": "µs",
    "ms": "ms",
    "s": "s",
    "percent": "%",
    "bytes": "B",
    "gbps": "GB/s",
}
_GAINS: Final = {
    "twice_as_fast_ms": "gain with a host twice as fast",
    "without_launching_ms": "gain if launches took no time",
    "without_waits_ms": "gain without waits for the GPU",
    "if_host_kept_up_ms": "gain if the host kept up",
}
"""Evidence that is the gain of something else: "twice as fast: 0.62 ms" was taken for a time."""


def shown_rows(found: Diagnosis, selection: Selection) -> list[FindingRow]:
    """Turn the findings of a diagnosis into rows, with what *Show* selects."""
    return _showing(found, found, selection, 0)


def rows_to_try(found: Diagnosis, selection: Selection) -> list[FindingRow]:
    """Turn what to try besides the findings into rows, with what *Show* selects."""
    return _showing(found, found.to_try, selection, len(found))


def _showing(
    found: Diagnosis, shown: Sequence[Finding], selection: Selection, first: int
) -> list[FindingRow]:
    """Rows of some findings; `first` is the position of the first of them."""
    rows = zip(shown, finding_rows(shown, found), strict=True)
    return [
        {
            **row,
            "show": _fields(each, place, selection, found.job.ranks),
            "occurrences": occurrences(found.proof(each), selection),
        }
        for place, (each, row) in enumerate(rows, first)
    ]


def finding_rows(found: Sequence[Finding], whole: Diagnosis) -> list[FindingRow]:
    """Turn findings of a diagnosis into rows without *Show*, in their order.

    Bars are relative to the largest price of all: else, something to try for 2.76 ms had a bar as
    long as that of a 41 ms finding.
    """
    most = max((each.recoverable_ms for each in (*whole, *found)), default=0)
    return [
        FindingRow(
            price=duration(each.recoverable_ms * NS_PER_MS) if each.recoverable_ms > 0 else "",
            bound=each.sign,
            percent=percent(each.percent) if each.recoverable_ms > 0 else "",
            share=max(each.recoverable_ms, 0) / most if most > 0 else 0,
            color=cause_look(each.cause)[0],
            fill=cause_look(each.cause)[1],
            sentence=each.sentence,
            cause=each.words.sentence("") if each.words.cause else each.sentence,
            doubt=_doubt(each, whole),
            advice=[AdviceRow(do=what.do, code=what.code) for what in each.advice],
            numbers=[
                _numbers(name, value)
                for name, value in each.evidence.items()
                if not (isinstance(value, pd.DataFrame) and value.empty)
            ],
            show=None,
            of_second=False,
            occurrences=[],
            panel=each.links[0].panel if each.links else "",
            folded=place >= MOST_SHOWN,
        )
        for place, each in enumerate(found)
    ]


def _doubt(found: Finding, whole: Diagnosis) -> str:
    """Whether the finding is inconclusive, the range of its price, and the reason for it."""
    is_open = found.confidence == "inconclusive"
    if not is_open and not found.less_by:
        return ""
    if not found.may_be_less:
        return INCONCLUSIVE
    least, most = (duration(ms * NS_PER_MS) for ms in (found.lower_ms, found.recoverable_ms))
    some = least if found.lower_ms > 0 else "nothing"
    if found.less_by == "lead":
        said = f"{most} at first, {least} in steady state."
    elif found.less_by == "alone":
        said = f"{some} on its own, {most} once the other findings are fixed."
    elif found.less_by != "peers":
        said = f"{least} to {most}{_WHY_LESS[found.less_by]}."
    else:
        said = f"{some} if {_others(whole.job)} the bottleneck, {most} if not"
        waits = whole.steps.set_index("step")[["undivided_ns", "wait_ns", "wait_p2p_ns"]]
        waits_ns = waits.sum(axis=1).groupby("step").max().mean()
        if waits_ns < found.recoverable_ms * NS_PER_MS:  # 2.14 ms, of a gain of 65.4
            said += f"; the GPU waits in communication for at most {duration(waits_ns)}"
        said += "."
        idle_ns = whole.steps.groupby("step")["idle_ns"].max().mean()
        is_in_idle_time = any(link.panel == "idle_owners" for link in found.links)
        if is_in_idle_time and found.recoverable_ms * NS_PER_MS > idle_ns:
            said += f" {most} is more than the {duration(idle_ns)} in which the GPU is idle, as "
            said += "communication would be hidden as well."
    return f"Inconclusive: {said}" if is_open else capitalised(said)


def _others(job: Job) -> str:
    """Who may be the bottleneck: of a whole job of four ranks, other ranks were said to."""
    return "communication that was not matched is" if is_whole(job) else "other ranks are"


def _fields(
    found: Finding, place: int, selection: Selection, every: Collection[int]
) -> dict[str, Any]:
    """Values of all selection fields that select what a finding is about.

    All ranks become an empty list: otherwise each of 256 would get its own lane.
    """
    link = found.links[0] if found.links else Link(panel="", ranks=found.ranks, steps=found.steps)
    values = {
        "ranks": [] if {*link.ranks} == {*every} else sorted({*link.ranks}),
        "streams": sorted({*link.streams}),
        "kernel": link.kernel,
        "operators": [],
        "shapes": [],
        "modules": [],
        "phase": selection.served_phase,
        "steps": sorted({*link.steps}),
        "window_ns": None,
        "finding": place,
    }
    return {name: value for name, value in values.items() if name in selection.fields()}


def occurrences(proof: Proof, selection: Selection) -> list[Occurrence]:
    """Windows that show where a finding is seen.

    A window selects its time only, not the finding's steps: the finding names the steps with most
    of the lost time, but the densest window may be in another one.
    """
    if "window_ns" not in selection.fields():
        return []
    return [
        Occurrence(
            fields={"steps": [], "window_ns": [*proof.shown_ns(place)]}, words=proof.words(place)
        )
        for place in range(len(proof.windows))
    ]


def _numbers(name: str, value: Evidence) -> Numbers:
    if isinstance(value, pd.DataFrame):
        no_steps = "step" in value and (value["step"] == NO_STEP).all()
        table = table_view(value.drop(columns="step") if no_steps else value)
        return Numbers(label=name.replace("_", " "), text="", table=table)
    what, _, unit = name.rpartition("_")
    if not what or unit not in _UNITS:
        return Numbers(label=name.replace("_", " "), text=format_cell(value), table=None)
    label = _GAINS.get(name, what.replace("_", " "))
    return Numbers(label=label, text=f"{format_cell(value)} {_UNITS[unit]}", table=None)
