"""Panel of what changed from one job to another: the verdict, where the time went, the causes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final, cast

import anywidget
import numpy as np
import pandas as pd
from traitlets import Bool, Bunch, List, observe

from hta_widgets.diagnosis import diagnosis_of_phase
from hta_widgets.diagnosis.change.explain_change import CauseChange, Change, explain_change
from hta_widgets.diagnosis.change.one_step import OneStep, one_step
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.diagnosis.change.time_spent import names_by_key
from hta_widgets.diagnosis.change.waterfall import LEVELS, Line, opened
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.change import budgets_of_both, waterfall_bars
from hta_widgets.figures.diagnosis import cause_look
from hta_widgets.figures.timeline_picture import steps_picture
from hta_widgets.intervals import Intervals
from hta_widgets.panels.base.controls import Toggle
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.drawn_widget import Source
from hta_widgets.panels.base.finding_rows import shown_rows
from hta_widgets.panels.base.panel_of_two import PanelOfTwo
from hta_widgets.panels.base.protocol import FindingRow, View
from hta_widgets.panels.base.rendered_view import RenderedView
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.base.summary import image
from hta_widgets.panels.base.traits import Texts, references
from hta_widgets.panels.base.updates import UPDATES
from hta_widgets.panels.timeline import TimelinePanel
from hta_widgets.panels.timeline.encoding import MOST_LIT, coarse
from hta_widgets.panels.timeline.messages import StackedStep
from hta_widgets.quantities import NS_PER_MS, capitalised, counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.opening.open import as_job

WATERFALL = "Where the difference comes from (click a row to open it)"
_FIELDS = {"module": "modules", "operator": "operators", "kernel": "kernel"}

_OF_BOTH: Final = ("operators", "kernel")
"""Fields that are selected in both jobs at once."""


class ChangePanel(PanelOfTwo[Change]):
    """Whether steps take longer than before, where the difference comes from, and why.

    All ranks of both jobs count, whatever is selected. A click on a bar opens it, selects its
    module, operator or kernel in both jobs, and marks it in a step of each, even if only the second
    job has it. A click on a bar above goes back. *Show* selects and marks a finding in the first
    job, or in the second if only that has it.
    """

    name = "change"
    tab = "compare"
    place = 1
    title = "What changed"
    table_selects: ClassVar = {}
    needs = (Recorded.KERNELS,)
    table_labels: ClassVar = {
        "first_ns": "First",
        "second_ns": "Second",
        "delta_ns": "Change",
        "first_count": "GPU operations or gaps, first",
        "second_count": "GPU operations or gaps, second",
    }

    opened: tuple[str, ...] = parameter(Texts())
    """The open row of the waterfall: its labels, from the class down; empty for the top level."""

    reverse: bool = parameter(Bool(False), Toggle("Swap before and after"))
    """Show the change from the second job to the first; the default if the second is a
    baseline."""

    _stacked = cast("List[StackedStep]", List()).tag(sync=True)
    _timelines = List(anywidget.WidgetTrait()).tag(sync=True, to_json=references)

    def __init__(
        self,
        first: Source,
        second: Source | Summary,
        *,
        timeline: TimelinePanel | None = None,
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        is_baseline = isinstance(second, Summary)
        job = as_job(first)
        self.other: Job | Summary = second if isinstance(second, Summary) else as_job(second)
        others = job if isinstance(self.other, Summary) else self.other
        self._passed: dict[str, list[Any]] = {}
        super().__init__(job, others, **{"reverse": is_baseline} | parameters)
        jobs = [job] if is_baseline else [job, others]
        self._own = [
            TimelinePanel(each, job_notices=False, on_demand=True)
            for each in (jobs if timeline is None else jobs[1:])
        ]
        self._timelines = self._own if timeline is None else [timeline, *self._own]
        for each in self._selections[1:]:
            each.join(self)

    @property
    def _selections(self) -> tuple[Selection, ...]:
        """Selection of the first job, and that of the second if it is a different job."""
        if isinstance(self.other, Summary) or self.other is self.job:
            return (self.selection,)
        return self.selection, Selection.of(self.other)

    def close(self) -> None:
        """Close the panel and the timelines that it made."""
        for each in self._selections[1:]:
            each.leave(self)
        for timeline in self._own:
            timeline.close()
        super().close()

    def analyse(self, ranks: list[int]) -> Change:  # noqa: ARG002
        """Explain the change over all ranks of both jobs."""
        first, second = (self.job, self.other)[:: -1 if self.reverse else 1]
        return self._memo.call(explain_change, first, second)

    def draw(self, result: Change) -> dict[str, Drawing]:
        """Draw the budgets of both jobs on one axis, and the open level of the waterfall."""
        chosen = opened(result.waterfall, self.opened)
        return {
            "Where a step goes, before and after": budgets_of_both(result),
            WATERFALL: waterfall_bars(result, chosen, chosen=self.opened),
        }

    @property
    def steps(self) -> tuple[OneStep, ...]:
        """A step of each job, with the pieces that belong to the open row of the waterfall.

        It is the step selected in that job, or else the typical one, which is as long as the
        median. Its rank is the one selected in that job, or else in the first job, or else the
        first rank that has the main cause of the change. A baseline has no steps.
        """
        return tuple(each for _, each in self._steps(self.result))

    def _steps(self, change: Change) -> list[tuple[int, OneStep]]:
        """The steps, each with 0 for the dashboard's job or 1 for the other job."""
        jobs = [self.job] if isinstance(self.other, Summary) else [self.job, self.other]
        asked = self._asked()
        with_cause = _ranks_with_the_cause(change)[:: -1 if self.reverse else 1]
        found = []
        for of, job in enumerate(jobs):
            rank, step = asked[min(of, len(asked) - 1)]
            rank = with_cause[of] if rank is None else rank
            find = partial(one_step, job, self.opened, rank=rank, step=step)
            shown = self._memo.get(("step", of), find, self.opened, rank, step)
            found += [(of, shown)] if shown else []
        return found[::-1] if self.reverse else found

    def _asked(self) -> list[tuple[int | None, int | None]]:
        """The rank and the step selected in each job; None unless there is exactly one."""
        ranks = self.selection.ranks
        return [(_only(each.ranks or ranks), _only(each.steps)) for each in self._selections]

    def _stack(self, change: Change) -> list[StackedStep]:
        """What a page shows about both steps."""
        chosen = opened(change.waterfall, self.opened)
        lines = [each.path for each in (*chosen.above[1:], *chosen.below)]
        what = change.label(self.opened) if self.opened in lines else ""
        found = []
        for of, each in self._steps(change):
            start_ns, end_ns = (each.seen[name].to_numpy() for name in ("start_ns", "end_ns"))
            told = coarse(Intervals.union(start_ns, end_ns), MOST_LIT)
            took = duration(int((end_ns - start_ns).sum()))
            found.append(
                StackedStep(
                    second=of == 1,
                    job=each.job,
                    rank=each.rank,
                    step=each.step,
                    typical=each.typical,
                    seen=np.column_stack((told.starts, told.ends)).ravel().tolist(),
                    said=f"{took} in {counted(start_ns.size, 'piece')}: {what}" if what else "",
                )
            )
        return found

    def _inputs(self) -> tuple[object, ...]:
        return (*super()._inputs(), *self._asked())

    def _view_of(self, outcome: RenderedView[Change] | Exception) -> View:
        if isinstance(outcome, RenderedView):
            self._stacked = self._stack(outcome.result)
            for name in _OF_BOTH:
                self._pass_on(name)
        return super()._view_of(outcome)

    def _selection_changed(self, name: str) -> None:
        """Show other steps, or select in one job what was selected in the other."""
        super()._selection_changed(name)
        if name in ("ranks", "steps"):
            UPDATES.ask(self)
        elif name in _OF_BOTH and self._in_sight:
            self._pass_on(name)

    def _pass_on(self, name: str) -> None:
        """Select in the other job what has been selected in one since they last agreed."""
        if len(self._selections) == 1:
            return
        values = [getattr(each, name) for each in self._selections]
        before = self._passed.get(name, [Selection.nothing()[name]] * len(values))
        changed = next((at for at, each in enumerate(values) if each != before[at]), None)
        if changed is None:
            return
        other = 1 - changed
        values[other] = self._counterpart(name, values[changed], changed)
        self._passed[name] = values
        setattr(self._selections[other], name, values[other])

    def _counterpart(self, name: str, value: Any, of: int) -> Any:  # noqa: ANN401
        """The same item in the other job; kernels are matched by what all profilers agree on."""
        if name != "kernel" or not value:
            return value
        own, others = (self._names(each)["kernel"] for each in (of, 1 - of))
        keys = [key for key, names in own.items() if value in names]
        found = [each for key in keys for each in others.get(key, ())]
        return value if value in found else next(iter(found), "")

    def _picture(self, result: Change) -> str:
        said = {each["second"]: each["said"] for each in self._stacked}
        shown = [(step, said.get(of == 1, "")) for of, step in self._steps(result)]
        return image(steps_picture(shown), "A step of each job")

    def tabulate(self, result: Change) -> pd.DataFrame:
        """List the rows below the open one, with the times of both jobs (ns per step)."""
        rows = opened(result.waterfall, self.opened).below
        what = LEVELS[len(rows[0].path) - 1] if rows else "class"
        return pd.DataFrame([_row(what, result.label(line.path), line) for line in rows])

    def nothing_to_show(self, result: Change) -> str | None:
        """Explain an empty panel: one of the jobs has no GPU work."""
        return None if result.first.mean_ns and result.second.mean_ns else result.finding

    def title_findings(self, result: Change) -> str:
        """How many findings remain, if there are any."""
        return result.causes_title if result.causes else ""

    def list_findings(self, result: Change) -> list[FindingRow]:
        """What became of each cause, with what *Show* selects in the job that has it."""
        shown: dict[str, FindingRow] = {}
        jobs = [self.job] if isinstance(self.other, Summary) else [self.job, self.other]
        for of, (job, selection) in reversed(
            [*enumerate(zip(jobs, self._selections, strict=False))]
        ):
            found = diagnosis_of_phase(job, selection.served_phase)
            rows = shown_rows(found, selection)
            shown |= {
                each.cause: {**row, "of_second": of == 1}
                for each, row in zip(found, rows, strict=True)
            }
        most = max((max(each.first_ms, each.second_ms) for each in result.causes), default=0.0)
        return [_finding(each, shown.get(each.cause), most) for each in result.causes]

    @observe("opened")
    def _select_opened(self, change: Bunch) -> None:
        """Select what was opened in each job, as far as the job has it."""
        texts = dict(zip(LEVELS, change.new, strict=False))
        with self.selection.hold():
            for of, selection in enumerate(self._selections):
                fields: dict[str, Any] = {"modules": (), "operators": (), "kernel": ""}
                fields["finding"] = None  # the row is marked now, not a finding
                for what, field in _FIELDS.items():
                    names = self._names(of)[what].get(texts.get(what, ""), ())
                    if names:
                        fields[field] = names[0] if what == "kernel" else names
                for field, value in fields.items():
                    setattr(selection, field, value)
            for name in _OF_BOTH:
                self._passed[name] = [getattr(each, name) for each in self._selections]

    def _names(self, of: int) -> dict[str, dict[str, tuple[str, ...]]]:
        """Names by key, of the first job or the second."""
        return self._memo.get(("names", of), partial(_names_of, self.second if of else self.job))


def _ranks_with_the_cause(change: Change) -> tuple[int | None, int | None]:
    """The first rank of the main cause in each job, if not all of them have it.

    For a job without the cause, the rank that has it in the other job.
    """
    cause = change.main_cause or next(iter(change.causes), None)
    if cause is None:
        return None, None
    first, second = (next(iter(each), None) for each in (cause.first_ranks, cause.second_ranks))
    return second if first is None else first, first if second is None else second


def _only(values: Sequence[int]) -> int | None:
    return values[0] if len(values) == 1 else None


def _names_of(job: Job) -> dict[str, dict[str, tuple[str, ...]]]:
    """`names_by_key` of all ranks."""
    found: dict[str, dict[str, tuple[str, ...]]] = {what: {} for what in _FIELDS}
    for of_rank in job.reduce(names_by_key, job.ranks).values():
        for what, names in of_rank.items():
            for key, each in names.items():
                found[what][key] = tuple(dict.fromkeys((*found[what].get(key, ()), *each)))
    return found


def _row(what: str, label: str, line: Line) -> dict[str, Any]:
    return {
        what: label,
        "first_ns": line.first_ns,
        "second_ns": line.second_ns,
        "delta_ns": line.delta_ns,
        "first_count": line.first_count,
        "second_count": line.second_count,
    }


def _finding(change: CauseChange, shown: FindingRow | None, most_ms: float) -> FindingRow:
    color, fill = cause_look(change.cause)
    words = capitalised(change.became)
    prices = {"gone": "gone", "untold": "?"}
    return FindingRow(
        price=prices.get(change.outcome, duration(change.second_ms * NS_PER_MS)),
        bound="",
        percent="" if change.outcome in prices else change.outcome,
        share=change.second_ms / most_ms if most_ms else 0,
        color=color,
        fill=fill,
        sentence=f"{words}. {change.sentence}",
        cause=f"{words}. {change.sentence}",
        doubt="",
        advice=shown["advice"] if shown and change.outcome != "gone" else [],
        numbers=[],
        show=shown["show"] if shown else None,
        of_second=bool(shown and shown["of_second"]),
        occurrences=shown["occurrences"] if shown else [],
        panel=shown["panel"] if shown else "",
        folded=False,
    )
