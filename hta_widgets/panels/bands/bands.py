"""Everything that a dashboard shows above its tabs, for what is selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hta_widgets.diagnosis import Diagnosis
from hta_widgets.panels.bands.budget import budget_band
from hta_widgets.panels.bands.detail import detail_of
from hta_widgets.panels.bands.events import count_events, selected_events
from hta_widgets.panels.bands.head import facts, verdict
from hta_widgets.panels.bands.launch import launch_of
from hta_widgets.panels.bands.messages import Bands, Detail
from hta_widgets.panels.base.cpu_rows import cpu_rows
from hta_widgets.panels.base.finding_rows import finding_rows
from hta_widgets.panels.base.protocol import FindingRow
from hta_widgets.panels.base.selection import Selection

NOT_YET: Final = Bands(
    ready=False,
    facts=[],
    verdict="",
    said="",
    findings=[],
    budget=None,
    detail=None,
    events="",
    code="",
    error=None,
)


def bands_of(found: Diagnosis, selection: Selection) -> Bands:
    """Put the bands together.

    Parameters
    ----------
    found : Diagnosis
        Of all ranks of the job.
    selection : Selection
    """
    rows = finding_rows(found, selection)
    job = found.job
    few = not job.too_many_to_hold(selection.ranks)
    on_cpu = cpu_rows(found, selection)
    return Bands(
        ready=True,
        facts=facts(found.job, found),
        verdict=verdict(found) if rows else "",
        said=_said(found),
        findings=rows or on_cpu,
        budget=budget_band(found, selection, rows),
        detail=_detail(found, selection, rows) if few else None,
        events=f"{count_events(job, selection):,}" if few else "",
        code=selection.to_code(),
        error=None,
    )


def _said(found: Diagnosis) -> str:
    """What stands in place of findings, or above what the CPUs did."""
    if found.cpu_work is not None:
        return found.cpu_work.no_gpu_work if found.cpu_work.sentences else found.finding
    return "" if found else found.finding


def _detail(
    found: Diagnosis, selection: Selection, findings: Sequence[FindingRow]
) -> Detail | None:
    is_work = bool(selection.kernel) or len(selection.operators) == 1
    events = selected_events(found.job, selection, in_window=False) if is_work else None
    launch = [] if events is None else launch_of(found.job, selection.kernel, events)
    return detail_of(events, found, findings, selection, launch)
