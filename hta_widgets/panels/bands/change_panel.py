"""Panel of what changed from one job to another: the verdict, where the time went, and causes."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import pandas as pd
from traitlets import Bool, Bunch, observe

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.change.explain_change import CauseChange, Change, explain_change
from hta_widgets.diagnosis.change.one_step import OneStep, one_step
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.diagnosis.change.time_spent import names_by_key
from hta_widgets.diagnosis.change.waterfall import LEVELS, Line, opened
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.change import budgets_of_both, steps_of_both, waterfall_bars
from hta_widgets.figures.diagnosis import cause_look
from hta_widgets.panels.base.controls import Toggle
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.drawn_widget import Source
from hta_widgets.panels.base.finding_rows import shown_rows
from hta_widgets.panels.base.panel_of_two import PanelOfTwo
from hta_widgets.panels.base.protocol import FindingRow
from hta_widgets.panels.base.traits import Texts
from hta_widgets.quantities import duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.opening.open import as_job

WATERFALL = "Where the difference comes from (a click on a row opens it)"
STEPS = "A step of each, on one axis (below it, where the open row is)"
_NS_PER_MS = 1e6
_FIELDS = {"module": "modules", "operator": "operators", "kernel": "kernel"}


class ChangePanel(PanelOfTwo[Change]):
    """Whether steps take longer than before, where the difference comes from, and which causes.

    All ranks of both jobs count, whatever is selected. A click on a bar opens it, selects its
    module, operator or kernel, and marks in a step of each job where that is, also of what only the
    second has; one on a bar above goes back. *Show* selects where a finding is seen
    in the first job.
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
    """Row of the waterfall that is open: its texts, from the class down; nothing for all of it."""

    reverse: bool = parameter(Bool(False), Toggle("Swap before and after"))
    """Whether the change is that from the second job to the first; by default if the second is a
    baseline."""

    def __init__(
        self,
        first: Source,
        second: Source | Summary,
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        is_baseline = isinstance(second, Summary)
        job = as_job(first)
        self.other: Job | Summary = second if isinstance(second, Summary) else as_job(second)
        others = job if isinstance(self.other, Summary) else self.other
        super().__init__(job, others, **{"reverse": is_baseline} | parameters)

    def analyse(self, ranks: list[int]) -> Change:  # noqa: ARG002
        """Explain the change between all ranks of both."""
        pair = (self.job, self.other)
        explain = partial(explain_change, *(pair[::-1] if self.reverse else pair))
        return self._memo.get("result", explain, self.reverse)

    def draw(self, result: Change) -> dict[str, Drawing]:
        """Draw the budgets of both on one axis, and the waterfall where it is open."""
        chosen = opened(result.waterfall, self.opened)
        figures = {
            "Where the time of both goes": budgets_of_both(result),
            WATERFALL: waterfall_bars(result, chosen, chosen=self.opened),
        }
        lines = (*chosen.above[1:], *chosen.below)
        what = result.label(self.opened) if self.opened in [each.path for each in lines] else ""
        return figures | ({STEPS: steps_of_both(self.steps, what)} if self.steps else {})

    @property
    def steps(self) -> tuple[OneStep, ...]:
        """A step of each job, with where in it the open row of the waterfall is seen.

        It is the selected one if that is one, else one as long as the mean; a baseline has none.
        """
        asked = self.selection.steps[0] if len(self.selection.steps) == 1 else None
        of_ranks = self.selection.ranks
        rank = of_ranks[0] if len(of_ranks) == 1 else None
        pair = (self.other, self.job) if self.reverse else (self.job, self.other)
        jobs = [each for each in pair if isinstance(each, Job)]
        key = ("steps", self.reverse)
        return self._memo.get(
            key,
            lambda: tuple(
                found
                for job in jobs
                if (found := one_step(job, self.opened, rank=rank, step=asked))
            ),
            self.opened,
            asked,
            rank,
        )

    def tabulate(self, result: Change) -> pd.DataFrame:
        """List what is below the row that is open, with the times of both (ns per step)."""
        rows = opened(result.waterfall, self.opened).below
        what = LEVELS[len(rows[0].path) - 1] if rows else "class"
        return pd.DataFrame([_row(what, result.label(line.path), line) for line in rows])

    def nothing_to_show(self, result: Change) -> str | None:
        """Explain an empty panel: one of the jobs has no GPU work."""
        return None if result.first.mean_ns and result.second.mean_ns else result.finding

    def list_findings(self, result: Change) -> list[FindingRow]:
        """What became of each cause, with what *Show* selects in the first job."""
        found = self.job.remember(diagnosis)
        rows = shown_rows(found, self.selection)
        shown = {each.cause: row for each, row in zip(found, rows, strict=True)}
        most = max((max(each.first_ms, each.second_ms) for each in result.causes), default=0.0)
        return [_finding(each, shown.get(each.cause), most) for each in result.causes]

    @observe("opened")
    def _select_opened(self, change: Bunch) -> None:
        """Select what was opened, as far as the job of this dashboard has it."""
        texts = dict(zip(LEVELS, change.new, strict=False))
        fields: dict[str, Any] = {"modules": (), "operators": (), "kernel": ""}
        for what, field in _FIELDS.items():
            names = self._names(what).get(texts.get(what, ""), ())
            if names:
                fields[field] = names[0] if what == "kernel" else names
        with self.selection.hold():
            for field, value in fields.items():
                setattr(self.selection, field, value)

    def _names(self, what: str) -> dict[str, tuple[str, ...]]:
        return self._memo.get("names", partial(_names_of, self.job))[what]


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
    words = f"{change.became[0].upper()}{change.became[1:]}"
    prices = {"gone": "gone", "untold": "?"}
    return FindingRow(
        price=prices.get(change.outcome, duration(change.second_ms * _NS_PER_MS)),
        bound="",
        percent="" if change.outcome in prices else change.outcome,
        share=change.second_ms / most_ms if most_ms else 0,
        color=color,
        fill=fill,
        sentence=f"{words}. {change.sentence}",
        cause=f"{words}. {change.sentence}",
        doubt="",
        advice=shown["advice"] if shown else [],
        numbers=[],
        show=shown["show"] if shown else None,
        occurrences=shown["occurrences"] if shown else [],
        panel=shown["panel"] if shown else "",
        folded=False,
    )
