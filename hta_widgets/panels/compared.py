"""``hta_widgets.compare``: what changed between jobs, as an object that a notebook displays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from html import escape
from typing import Any, overload

from hta_widgets.diagnosis.change.explain_change import Change, explain_change
from hta_widgets.diagnosis.change.several import ONE, SeveralJobs, Side, several_jobs, side
from hta_widgets.diagnosis.change.waterfall import opened
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.budget_bars import job_budgets
from hta_widgets.figures.change import budgets_of_both, step_lengths, waterfall_bars
from hta_widgets.panels.base.summary import pictures, table_of_texts
from hta_widgets.quantities import duration, percent, signed

_POINTS = 2_000


class ShownChange(Change):
    """A `Change` as a notebook shows it: the verdict, causes, both budgets, where the time went."""

    def __repr__(self) -> str:
        """The finding."""
        return self.finding

    def _repr_html_(self) -> str:
        drawn = {
            "Where a step goes, before and after": budgets_of_both(self),
            "Where the difference comes from": waterfall_bars(self, opened(self.waterfall, ())),
        }
        causes = [each.words for each in self.causes]
        differ = [each.sentence for each in self.differences]
        return _said(self.finding, causes, differ) + "".join(pictures(drawn, _POINTS))


class ShownJobs(SeveralJobs):
    """`SeveralJobs` as a notebook shows them: a table, budgets on one axis, steps of each job."""

    def __repr__(self) -> str:
        """The finding."""
        return self.finding

    def _repr_html_(self) -> str:
        longest_ns = max(int(each.steps["job_ns"].max()) for each in self.jobs if len(each.steps))
        small: dict[str, Drawing] = {
            f"{each.name}, {duration(each.mean_ns)}": step_lengths(each, longest_ns=longest_ns)
            for each in self.jobs
        }
        whole = {
            "Where the time of each job goes": job_budgets(
                self.times, names=[each.name for each in self.jobs]
            )
        }
        side_by_side = "".join(
            f'<div style="flex: 1 1 340px; max-width: 560px">{each}</div>'
            for each in pictures(small, _POINTS)
        )
        return (
            f"{_said(self.finding)}{_table(self)}{''.join(pictures(whole, _POINTS))}"
            f'<div style="display: flex; flex-wrap: wrap">{side_by_side}</div>'
        )


@overload
def compare(first: Sequence[Side], second: None = None) -> ShownJobs: ...


@overload
def compare(first: Side, second: Side) -> ShownChange: ...


def compare(first: Any, second: Any = None) -> ShownChange | ShownJobs:
    """Explain what changed from one job to another, or across several jobs.

    Parameters
    ----------
    first, second : Job, TraceAnalysis, path or baseline, or a list of them
        The jobs before and after a change. A list holds several recordings of one side, each of
        a separate run; with these, a change can be told from run-to-run noise. A path that ends in
        ``.arrow`` is a baseline. For a job with several files, pass their folder. Without `second`,
        `first` is a list of two or more jobs, which are compared with the first of them.

    Returns
    -------
    Change or SeveralJobs
        A notebook displays either of them.

    Examples
    --------
    >>> import hta_widgets
    >>> hta_widgets.compare("before", "after")  # doctest: +SKIP
    >>> hta_widgets.compare(["a1", "a2", "a3"], ["b1", "b2", "b3"])  # doctest: +SKIP
    >>> hta_widgets.compare(["one", "two", "three"]).table  # doctest: +SKIP
    """
    if second is None:
        jobs = [first] if isinstance(first, ONE) else first
        return ShownJobs(**_fields(several_jobs(jobs, progress=True)))
    sides = [side(each, progress=True) for each in (first, second)]
    return ShownChange(**_fields(explain_change(*sides)))


def _fields(result: Change | SeveralJobs) -> dict[str, Any]:
    return {each.name: getattr(result, each.name) for each in fields(result)}


def _said(finding: str, *lists: list[str]) -> str:
    items = ["".join(f"<li>{escape(text)}</li>" for text in texts) for texts in lists if texts]
    return f"<p>{escape(finding)}</p>" + "".join(f"<ul>{each}</ul>" for each in items)


def _table(jobs: SeveralJobs) -> str:
    rows = [
        (
            str(row["job"]),
            f"{row['steps']:,}",
            duration(row["mean_ns"]),
            signed(row["change_percent"], percent),
            str(row["verdict"]),
        )
        for row in jobs.table.to_dict("records")
    ]
    return table_of_texts(("job", "steps", "mean step", "change", "verdict"), rows)
