"""Panels that only a dashboard has: its header, the budget of ranks and steps, fusable kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET, COLUMN_LABELS
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.server_steps import server_steps
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.diagnosis import Diagnosis, diagnosis_of_phase
from hta_widgets.diagnosis.budget_table import budget, class_of, named_classes
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.diagnosis.facts.compute_facts import MOST_CHAINS
from hta_widgets.diagnosis.own_time import own_time
from hta_widgets.diagnosis.rules.unfused_elementwise import fusable_kernels
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.budget_bars import rank_budgets, step_budgets
from hta_widgets.figures.diagnosis import fusable_bars, own_time_cells
from hta_widgets.panels.bands.budget import budgets_in_window
from hta_widgets.panels.bands.change_panel import ChangePanel
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.panel_of_two import PanelOfTwo
from hta_widgets.panels.base.protocol import PanelSpec
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.shown_paths import distinct_endings
from hta_widgets.panels.compare import ComparePanel
from hta_widgets.panels.diagnosis import OWN_TIME
from hta_widgets.panels.timeline import TimelinePanel
from hta_widgets.quantities import NS_PER_MS, capitalised, counted, duration, number_ranges
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import capture_notices

FEW_RANKS: Final = 16
"""Maximum ranks for which there is a sentence; with more, the panel already fills a screen."""

LONGER: Final = 1.05
"""Multiple of the median from which the longest step is described separately."""

NOTHING_TO_FUSE = (
    "Nothing to fuse: these ranks ran no unfused attention and no three consecutive elementwise "
    "kernels."
)


class JobPanel(Panel[Result]):
    """The header: the job's name, its ranks, and what was left out."""

    any_number_of_ranks = True

    def analyse(self, ranks: list[int]) -> Result:
        """Count the ranks of the job."""
        every = self.job.ranks
        finding = f"{counted(len(every), 'rank')}: {number_ranges(every)}."
        chosen = ranks or every
        notices = (*self.job.notices_for(chosen), *self.job.noticed(capture_notices, chosen))
        return Result(finding=finding, notices=notices)

    def tabulate(self, result: Result) -> pd.DataFrame:  # noqa: ARG002
        """List the file of each rank, or its URL."""
        sources = self.job.sources.values()
        endings = distinct_endings([str(source.path) for source in sources])
        files = [
            ending if source.remote is None else source.name
            for source, ending in zip(sources, endings, strict=True)
        ]
        return pd.DataFrame({"rank": list(self.job.sources), "file": files})

    def _describe(self) -> PanelSpec:
        return {**super()._describe(), "title": self.job.name}


class _OfDiagnosis(Panel[Diagnosis]):
    """Base of the panels about what the diagnosis of all ranks knows of each rank and step."""

    any_number_of_ranks = True
    follows: ClassVar[tuple[str, ...]] = TIME_FIELDS
    table_labels: ClassVar = COLUMN_LABELS
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    def analyse(self, ranks: list[int]) -> Diagnosis:
        """Diagnose all ranks of the job, as what one rank waits for shows on the others."""
        self.job.select_ranks(ranks)
        found = self._diagnosed()
        return self._memo.get("result", lambda: replace(found, finding=""), found)

    def _diagnosed(self) -> Diagnosis:
        return diagnosis_of_phase(self.job, self.selection.served_phase)

    def nothing_to_show(self, result: Diagnosis) -> str | None:
        """Explain an empty panel: no GPU work, none that can be priced, or none in the window."""
        if not result.steps.empty:
            inside = self._in_window(result)
            is_outside = inside is not None and inside.empty
            return "The selected window contains no analysed time." if is_outside else None
        work = result.cpu_work
        return self._diagnosed().finding if work is None else work.no_gpu_work

    def _in_window(self, result: Diagnosis) -> pd.DataFrame | None:  # noqa: ARG002
        """The part of ranks or steps in the selected window; None if the window does not count."""
        return None

    def _in_steps(self, result: Diagnosis) -> pd.DataFrame:
        """The budget in the selected steps, or in all steps if none of them is analysed."""
        chosen = result.steps["step"].isin(self.selection.steps)
        return budget(result.steps[chosen] if chosen.any() else result.steps)


class RanksPanel(_OfDiagnosis):
    """What the mean step of each rank is spent on."""

    name = "ranks"
    tab = "ranks"
    place = 1
    title = "Where the time of each rank goes"
    table_open = True

    def sentence(self, result: Diagnosis) -> str:
        """The class that takes the most time, and the ranks that wait least and most."""
        table = self.tabulate(result)
        if table.empty or len(table) > FEW_RANKS:
            return ""
        waiting = table.get("waiting_ms", pd.Series(0.0, table.index))
        most = _most(table.drop(columns="waiting_ms", errors="ignore"))
        unit = _unit(result).removeprefix("ms ") if self._in_window(result) is None else ""
        apart = " apart from waiting" * bool(waiting.any())
        amount = f"{_between(table[most])} {unit}".rstrip()
        said = f"Largest part of the mean rank{apart}: {_label(most, result)} ({amount})"
        if not waiting.any():
            return f"{said}."
        first, last = (f"rank {rank}" for rank in table["rank"].iloc[[0, -1]])
        return (
            f"{said}. {first.capitalize()} waits least for the others "
            f"({_ms(waiting.iloc[0])}), {last} most ({_ms(waiting.iloc[-1])})."
        )

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether there are several ranks; for a single one, the budget shows the same."""
        return super().concerns(job) and len(job.ranks) > 1

    def draw(self, result: Diagnosis) -> dict[str, Drawing]:
        """Draw a stacked bar for each rank, the one that waits least first."""
        unit = _unit(result) if self._in_window(result) is None else "ms in the window"
        return {self.title: rank_budgets(self.tabulate(result), selected=self.ranks, unit=unit)}

    def tabulate(self, result: Diagnosis) -> pd.DataFrame:
        """List the classes of each rank (ms), the one that waits least first.

        They cover its mean step, or its time in the selected window.
        """
        by_rank = self._in_window(result)
        if by_rank is None:
            by_rank = self._in_steps(result).groupby("rank", as_index=False).mean()
        table = by_rank.drop(columns=["step"]).set_index("rank")
        in_ms = (table / NS_PER_MS).rename(columns=lambda name: name.replace("_ns", "_ms"))
        order = in_ms["waiting_ms"].sort_values(kind="stable").index
        in_ms = in_ms.loc[order].reset_index()
        return in_ms[["rank", "period_ms", *_classes(in_ms, result)]]

    def _in_window(self, result: Diagnosis) -> pd.DataFrame | None:
        inside = budgets_in_window(result.job, self._in_steps(result), self.selection.window_ns)
        return None if inside is None else inside.groupby("rank", as_index=False).sum()


def _unit(result: Diagnosis) -> str:
    """Unit of the times, and what they are means of."""
    has_steps = bool((result.steps["step"] != NO_STEP).any())
    return "ms per step" if has_steps else "ms of the GPU span"


def _class_columns(table: pd.DataFrame) -> list[str]:
    """Columns of the classes of the budget."""
    return [name for name in table.columns.tolist() if name in COLUMN_LABELS]


def _most(table: pd.DataFrame) -> str:
    """Column of the class that takes the most time."""
    return str(table[_class_columns(table)].sum().idxmax())


def _label(column: str, result: Diagnosis) -> str:
    """Name of a class in a sentence, as in the bar of the budget."""
    classes = named_classes(result.steps, lost_most=result.health.lost_most)
    return next(each.short for each in classes if f"{each.name}_ms" == column)


def _ms(value: float) -> str:
    return duration(value * NS_PER_MS)


def _between(times_ms: pd.Series[float]) -> str:
    """The shortest and the longest time, or only one if they look the same."""
    return " to ".join(dict.fromkeys((_ms(times_ms.min()), _ms(times_ms.max()))))


def has_several_steps(rank: Rank) -> bool:
    """Whether more than one step of the rank is analysed."""
    return len(window_of(rank).steps) > 1


class StepsPanel(_OfDiagnosis):
    """What each step is spent on, and which rank takes longer than the others in it."""

    name = "steps"
    tab = "steps"
    place = 1
    title = "Where each step goes"

    def sentence(self, result: Diagnosis) -> str:
        """How long steps take, and why the longest is longer; in a window, what takes the most."""
        table = self.tabulate(result)
        if table.empty:
            return ""
        most = _most(table)
        if self._in_window(result) is not None:
            parts = f"{_ms(table[most].sum())} of {_ms(table['period_ms'].sum())}"
            return f"Most of the window goes to {_label(most, result)}: {parts}."
        period, usual = table["period_ms"], table.median(numeric_only=True)
        said = f"Steps take {_between(period)} (median {_ms(usual['period_ms'])})"
        longest = table.iloc[int(period.to_numpy().argmax())]
        if longest["period_ms"] <= LONGER * usual["period_ms"]:
            return f"{said}; most goes to {_label(most, result)}: {_between(table[most])}."
        more = {name: float(longest[name] - usual[name]) for name in _class_columns(table)}
        name = max(more, key=lambda each: more[each])
        return (
            f"{said}. Step {longest['step']:.0f} is the longest: {_label(name, result)} "
            f"+{_ms(more[name])} compared with the median step."
        )

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether there are several steps; for a single one, the budget shows the same."""
        return super().concerns(job) and any(job.reduce(has_several_steps, job.ranks).values())

    def draw(self, result: Diagnosis) -> dict[str, Drawing]:
        """Draw a stacked bar for each step, and the own time of all ranks in all steps.

        In a window, the whole step is drawn behind the part of it that is inside.
        """
        steps, inside = self.selection.steps, self._in_window(result)
        has_steps = bool((result.steps["step"] != NO_STEP).any())
        title = f"Where each {result.phase} step goes".replace("  ", " ")
        title = title if has_steps else "Where the GPU span goes"
        unit = "ms" if inside is None else "ms in the window"
        figures = {title: step_budgets(self.tabulate(result), selected=steps, unit=unit)}
        own = own_time(result.steps)
        if len(own.percent) > 1:  # for a single rank, the bars show which step takes longer
            figures[OWN_TIME] = own_time_cells(own, selected=self.ranks, steps=steps)
        return figures

    def tabulate(self, result: Diagnosis) -> pd.DataFrame:
        """List the classes of each step (ms), as means of the selected ranks.

        For a server, they also have what the step computes (``phase``) and for how many
        ``requests``. In a window, they cover the part of each step inside, as means of the ranks
        with time in the window, so that the steps add up to the budget of the window.
        """
        inside = self._in_window(result)
        if inside is None:
            table = _in_ms(budget(self._of_ranks(result)).groupby("step").mean(), result)
        else:
            table = self._parts(result, inside)
        return _with_phases(table, result)

    def _parts(self, result: Diagnosis, inside: pd.DataFrame) -> pd.DataFrame:
        ranks = inside["rank"].unique()
        whole = result.steps[result.steps["rank"].isin(ranks)].groupby("step")["period_ns"].sum()
        means = inside.groupby("step").sum() / len(ranks)
        return _in_ms(means.assign(whole_step_ns=whole / len(ranks)), result)

    def _in_window(self, result: Diagnosis) -> pd.DataFrame | None:
        """The budget of each rank and step inside the window; None without a window."""
        return budgets_in_window(result.job, self._of_ranks(result), self.selection.window_ns)

    def _of_ranks(self, result: Diagnosis) -> pd.DataFrame:
        steps = result.steps
        chosen = steps["rank"].isin(self.ranks)
        return steps[chosen] if chosen.any() else steps


class FusableKernelsPanel(_OfDiagnosis):
    """Chains of elementwise kernels, and attention, that one kernel could replace."""

    name = "fusable_kernels"
    tab = "kernels"
    place = 4
    title = "Fusable kernels"
    follows = ("kernel",)
    table_selects: ClassVar = {"first_kernel": "kernel"}

    def sentence(self, result: Diagnosis) -> str:
        """How much time they take, and how much fusing them would save."""
        found = self._found(result)
        if found.empty:
            return ""
        is_attention = found["first_kernel"] == ""
        chains = int((~is_attention).sum())
        what = [
            *(["unfused attention"] if is_attention.any() else []),
            *([counted(chains, "chain") + " of elementwise kernels"] if chains else []),
        ]
        verb = "take" if len(what) > 1 or chains > 1 else "takes"
        what[0] = capitalised(what[0])
        unit = _unit(result).removeprefix("ms ")
        of = " (mean of all analysed steps)" if unit == "per step" else ""
        total, saved = (_ms(found[name].sum()) for name in ("total_ms", "saved_ms"))
        # a step is shorter by less, where the GPU then waits for its host: 11.5 of 13 ms
        would = f"fusing would save {saved} of kernel time"
        return f"{' and '.join(what)} {verb} {total} {unit}{of}; {would}."

    def draw(self, result: Diagnosis) -> dict[str, Drawing]:
        """Draw their time, and how much of it fusing would save."""
        most = self._found(result).head(MOST_CHAINS)
        return {"Time of consecutive kernels": fusable_bars(most, unit=_unit(result))}

    def tabulate(self, result: Diagnosis) -> pd.DataFrame:
        """List them, those with the most to save first."""
        found = self._found(result)
        return found if found["first_kernel"].any() else found.drop(columns="first_kernel")

    def nothing_to_show(self, result: Diagnosis) -> str | None:
        """Explain an empty panel: nothing to fuse."""
        if (nothing := super().nothing_to_show(result)) is not None:
            return nothing
        return NOTHING_TO_FUSE if self._found(result).empty else None

    def _found(self, result: Diagnosis) -> pd.DataFrame:
        return self._memo.call(fusable_kernels, result.job, tuple(self.ranks))


def _with_phases(table: pd.DataFrame, result: Diagnosis) -> pd.DataFrame:
    """The steps of a server, with the phase and the requests of each; others are unchanged."""
    served = server_steps(result.job).steps.drop_duplicates("step").set_index("step")
    if served.empty:
        return table
    requests = served["context_requests"] + served["generation_requests"]
    found = table.copy()
    found.insert(1, "phase", found["step"].map(served["phase"]).fillna(""))
    if requests.notna().any():
        found.insert(2, "requests", found["step"].map(requests))
    return found


def _classes(in_ms: pd.DataFrame, result: Diagnosis) -> list[str]:
    """Columns of the classes that occur: that of the first finding, then the others by time."""
    times = {f"{each.name}_ms": in_ms[f"{each.name}_ms"].sum() for each in BUDGET}
    first = [f"{class_of(found.cause).name}_ms" for found in [*result][:1]]
    by_time = sorted((name for name in times if times[name]), key=lambda name: -times[name])
    return sorted(by_time, key=lambda name: name not in first)


def _in_ms(by_step: pd.DataFrame, result: Diagnosis) -> pd.DataFrame:
    """The classes that occur, in ms."""
    table = (by_step / NS_PER_MS).rename(columns=lambda name: name.replace("_ns", "_ms"))
    times = [name for name in ("period_ms", "whole_step_ms") if name in table]
    return table.reset_index()[["step", *times, *_classes(table, result)]]


OF_DIAGNOSIS: dict[str, type[Panel[Any]]] = {
    panel.name: panel for panel in (RanksPanel, StepsPanel, FusableKernelsPanel)
}
"""Panels of a dashboard that show more about the diagnosis."""

OF_TWO_JOBS: dict[str, type[PanelOfTwo[Any]]] = {
    panel.name: panel for panel in (ChangePanel, ComparePanel)
}
"""Panels of a dashboard with a second job; with a baseline, only the first of them."""


def panels_of_two(
    job: Job, second: Job | Summary | None, timeline: TimelinePanel | None
) -> dict[str, Panel[Any]]:
    """Make the panels that compare a job with a second job or a baseline; none if there is none.

    `timeline` is the timeline panel of the job, if it has one.
    """
    if second is None:
        return {}
    change = ChangePanel(job, second, timeline=timeline, job_notices=False, on_demand=True)
    made: list[Panel[Any]] = [change]
    if isinstance(second, Job):
        made.append(ComparePanel(job, second, job_notices=False, on_demand=True))
    return {panel.name: panel for panel in made}
