"""What the two panels of a comparison say of both jobs."""

from __future__ import annotations

from itertools import combinations, product
from statistics import median
from typing import Any, Final

from hta_widgets import diagnose
from hta_widgets.analyses.compare import job_names
from hta_widgets.diagnosis.change.work_done import WORK_OF_USERS
from hta_widgets.names.readable import distinct_labels
from hta_widgets.quantities import duration, number, percent
from tests.explained.forms import Form, Texts


def lengths(first_ns: float, second_ns: float) -> tuple[str, str | None, str | None]:
    """By how much the second takes longer, and both lengths."""
    change = 100 * (second_ns / first_ns - 1)
    if abs(change) < 0.05:
        return "as long as", duration(second_ns), None
    words = f"{percent(abs(change))} {'longer' if change > 0 else 'less time'} than"
    return words, duration(second_ns), duration(first_ns)


def spans(result: Any, panel: Any) -> Texts | None:
    """The GPU span of both jobs, and the kernels that change most."""
    row = result.times.set_index("time").loc["span"]
    if not row["first_ns"] or not row["second_ns"]:
        return None
    words, second, first = lengths(row["first_ns"], row["second_ns"])
    texts: Texts = {"than": words, "second": second, "first": first}
    names = job_names(panel.job.name, panel.second.name)
    texts |= dict(zip(("name", "other"), names[::-1], strict=True))
    changes = result.kernels.set_index("kernel")["delta_total_ns"]
    if changes.max() > 0:
        (texts["more"],) = distinct_labels([str(changes.idxmax())], among=changes.index)
        texts["by"] = duration(changes.max())
    if changes.min() < 0:
        (texts["less"],) = distinct_labels([str(changes.idxmin())], among=changes.index)
        texts["by_less"] = duration(-changes.min())
    return texts


def mean_step(job: Any) -> tuple[float, list[int]]:
    """The mean step of all ranks that counts (ns), and how long each is on the slowest rank."""
    found = diagnose(job)
    counted = found.steps[~found.steps["step"].isin(found.left_out_steps)]
    by_step = counted.groupby("step")["period_ns"]
    return float(counted["period_ns"].mean()), by_step.max().tolist()


def chance(first: list[int], second: list[int]) -> float:
    """One-sided p of Mann-Whitney: all ways to deal the steps to the jobs, counted."""
    low, high = sorted((first, second), key=median)

    def wins(chosen: tuple[int, ...]) -> float:
        rest = [each for place, each in enumerate(every) if place not in chosen]
        pairs = product((every[place] for place in chosen), rest)
        return sum((one > other) + (one == other) / 2 for one, other in pairs)

    every = [*high, *low]
    reached = wins(tuple(range(len(high))))
    ways = [wins(chosen) for chosen in combinations(range(len(every)), len(high))]
    return sum(each >= reached for each in ways) / len(ways)


def changed(result: Any, panel: Any) -> Texts:
    """Both mean steps, and what is said of the cause and of the largest parts."""
    (before, first), (after, second) = mean_step(panel.job), mean_step(panel.second)
    change = 100 * (after / before - 1)
    texts: Texts = {
        "after": duration(after),
        "before": duration(before),
        "change": f"{'+' * (change > 0)}{'−' * (change < 0)}{percent(abs(change))}",
        "one": str(len(first)),
        "other": str(len(second)),
        "chance": f"= {number(told)}" if (told := chance(first, second)) >= 1e-4 else "< 0.0001",
    }
    ranks = {len(diagnose(each).ranks) for each in (panel.job, panel.second)}
    if len(ranks) == 1 and ranks != {1}:
        texts["ranks"] = str(*ranks)
    told_by_both = [each for each in WORK_OF_USERS if result.first.work.get(each)]
    told_by_both = [each for each in told_by_both if result.second.work.get(each)]
    if told_by_both:
        then, now = (
            1e9 * each.work[told_by_both[0]] / each.steps["period_ns"].sum()
            for each in (result.first, result.second)
        )
        more = float(100 * (now / then - 1))
        texts |= {"then": number(then), "now": number(now)}
        texts["rate"] = f"{'+' * (more > 0)}{'−' * (more < 0)}{percent(abs(more))}"
    share = 100 * sum(each.delta_ns for each in result.lines) / (result.delta_ns or 1)
    if result.lines and share <= 100:
        texts["of_it"] = percent(share)
    return texts


def told(result: Any, panel: Any) -> Texts | None:
    """A change between jobs that are comparable."""
    change = median(mean_step(panel.second)[1]) / median(mean_step(panel.job)[1])
    verdicts = {"regression": change > 1.02, "improvement": change < 1 / 1.02}
    if not verdicts.get(result.verdict):
        return None
    return {**changed(result, panel), "verdict": result.verdict.capitalize()}


def alike(result: Any, panel: Any) -> Texts | None:
    """Jobs that are alike."""
    return changed(result, panel) if result.verdict == "noise" else None


def nearly_alike(result: Any, panel: Any) -> Texts | None:
    """Jobs that differ by more than noise, and by less than 2 %."""
    is_real = chance(*(mean_step(each)[1] for each in (panel.job, panel.second))) < 0.01
    return alike(result, panel) if is_real else None


def not_alike(result: Any, panel: Any) -> Texts | None:
    """Jobs that are not comparable."""
    if result.verdict not in ("other hardware", "method changed"):
        return None
    texts = changed(result, panel)
    names = ("after", "before", "change", "ranks", "of_it", "now", "then", "rate")
    return {name: texts[name] for name in names if name in texts}


def some_steps(result: Any, panel: Any) -> Texts | None:
    """Jobs of which the tests cannot tell."""
    if result.verdict != "cannot tell":
        return None
    texts = changed(result, panel)
    names = ("after", "before", "change", "ranks", "now", "then", "rate")
    return {name: texts[name] for name in names if name in texts}


_STEP: Final = (
    "he mean step[[ of <ranks> ranks]][[ of all ranks]] takes <after> instead of <before> "
    "(<change>)[[, with <now> <_what> per second instead of <then> (<rate>)]]"
)
_COUNTS: Final = "(<one> and <other> steps, p <chance>)"
_PARTS: Final = (
    "[[ Cause by replay: <_cause>.]][[ <of_it> of the difference: <_lines>.]]"
    "[[ Most of it: <_lines>.]]"
)

FORMS: Final[dict[str, list[Form]]] = {
    "compare": [
        Form(
            "<name> takes <than> <other>: <second>[[ instead of <first>]][[ <_per>]], from the "
            "first to the last GPU operation.[[ Largest increase: <more> (+<by>)]]"
            "[[[[;]][[.]] [[L]][[l]]argest decrease: <less> (−<by_less>)]][[.]]",
            spans,
        )
    ],
    "change": [
        Form(f"<verdict>: t{_STEP} {_COUNTS}.{_PARTS}", told),
        Form(f"No difference beyond noise: t{_STEP} {_COUNTS}.", alike),
        Form(f"No difference of 2 % or more: t{_STEP} {_COUNTS}.", nearly_alike),
        Form(f"Different hardware. <_difference>. T{_STEP}.{_PARTS}", not_alike),
        Form(f"Not comparable as they are. <_difference>. T{_STEP}.{_PARTS}", not_alike),
        Form(f"Cannot tell (<_why>): t{_STEP} (<_steps>).{_PARTS}", some_steps),
        Form(f"Cannot tell: <_why>. T{_STEP}.", some_steps),
    ],
}
