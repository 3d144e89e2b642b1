"""Check whether a job has become worse than limits allow, for continuous integration."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hta_widgets.diagnosis.change.baseline import FOLDER, read_baseline
from hta_widgets.diagnosis.change.explain_change import Change, explain_change
from hta_widgets.diagnosis.change.significance import significance_of_recordings
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.errors import ParameterError
from hta_widgets.quantities import data_size, duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace

What = Literal["step", "kernel", "finding", "memory"]

LIMITS: Final[dict[What, float]] = {"step": 2.0, "kernel": 5.0, "finding": 0.0, "memory": 5.0}
"""What can be limited, and the default percentage."""

LEAST_SHARE: Final = 0.005
"""Share of a step by which a kernel must cost more to be worth a failure."""

_LIMIT: Final = re.compile(r"(step|kernel|memory)(?::(\d{1,4}(?:\.\d{1,4})?)\s?%?)?|finding")


class Limit(NamedTuple):
    """Something that must not become worse."""

    what: What
    """Key of `LIMITS`."""
    percent: float
    """How much worse it may become; for findings, none may be new."""

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read a limit such as ``step:2%``, ``kernel:5%``, ``memory`` or ``finding``.

        Raises
        ------
        ParameterError
            If it is not a limit.

        Examples
        --------
        >>> Limit.parse("step:2.5%"), Limit.parse("finding")
        (Limit(what='step', percent=2.5), Limit(what='finding', percent=0.0))
        """
        found = _LIMIT.fullmatch(text)
        if found is None:
            msg = f"{text[:80]!r} is not a limit: use step:2%, kernel:5%, memory:5% or finding"
            raise ParameterError(msg)
        what: What = found[1] or "finding"  # type: ignore[assignment]
        return cls(what, float(found[2]) if found[2] else LIMITS[what])


def read_limits(path: str | PathLike[str]) -> tuple[list[Limit], list[str]]:
    """Read a file of limits, which can be kept next to the program they are for.

    Each line is a limit, as `Limit.parse` takes it, or ``allow`` and a cause that may be new. What
    follows a ``#`` is a comment. Returns the limits and these causes.

    Raises
    ------
    ParameterError
        If it cannot be read, has no limit, or a line is not one.
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the limits {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ParameterError(msg) from error
    limits: list[Limit] = []
    allowed: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        first, *others = line.partition("#")[0].split() or [""]
        if first == "allow" and len(others) == 1:
            allowed += others
        elif first:
            try:
                limits.append(Limit.parse(" ".join((first, *others))))
            except ParameterError as error:
                msg = f"line {number} of {path}: {error}, or allow CAUSE"
                raise ParameterError(msg) from error
    if not limits:
        msg = f"{path} has no limit: write one per line, such as step:2%"
        raise ParameterError(msg)
    return limits, allowed


class Judgement(NamedTuple):
    """The result of checking a change against limits."""

    broken: tuple[str, ...]
    """Limits that are broken, and by what."""
    untold: tuple[str, ...]
    """Limits that cannot be checked, and why."""

    @property
    def outcome(self) -> Literal["regression", "cannot_tell", "passed"]:
        """The overall result."""
        if self.broken:
            return "regression"
        return "cannot_tell" if self.untold else "passed"


def judge(change: Change, limits: Iterable[Limit], allowed: Collection[str] = ()) -> Judgement:
    """Check a change against limits; findings of the causes ``allowed`` may be new."""
    broken: list[str] = []
    untold: list[str] = []
    for limit in limits:
        doubt = _doubt(change, limit)
        if doubt:
            untold.append(f"{limit.what}: {doubt}")
        else:
            broken += _broken(change, limit, allowed)
    return Judgement(tuple(broken), tuple(untold))


def assert_no_regression(
    job_or_path: Job | str | PathLike[str],
    baseline: str,
    *,
    limits: Iterable[str] = ("step:2%", "finding"),
    allowed: Collection[str] = (),
    folder: str | PathLike[str] = FOLDER,
) -> Change:
    """Raise an error if a job is worse than its baseline, or if that cannot be determined.

    Parameters
    ----------
    job_or_path : Job or path
    baseline : str
        A name, or an ``.arrow`` file.
    limits : iterable of str
        What must not become worse, such as ``kernel:5%``.
    allowed : collection of str
        Causes that may be new.
    folder : path
        Folder of named baselines.

    Returns
    -------
    Change

    Raises
    ------
    AssertionError
        With the limits that are broken or cannot be checked, and what changed.
    BaselineError
        If there is no such baseline.
    """
    asked = [Limit.parse(each) for each in limits]
    first = read_baseline(baseline, Path(folder))
    job = job_or_path if isinstance(job_or_path, Job) else open_trace(job_or_path, progress=False)
    change = explain_change(first, job)
    judgement = judge(change, asked, allowed)
    if judgement.outcome != "passed":
        cannot = [f"cannot be checked: {each}" for each in judgement.untold]
        raise AssertionError("\n".join([*judgement.broken, *cannot, change.finding]))
    return change


def _doubt(change: Change, limit: Limit) -> str:
    """Why a limit cannot be checked; empty if it can."""
    both = (change.first, change.second)
    if limit.what == "memory":
        lacking = [each.name for each in both if each.memory_bytes < 0]
        return f"memory is not recorded in {' and '.join(lacking)}" if lacking else ""
    if limit.what == "finding":
        unknown = [each.name for each in both if each.status not in ("findings", "healthy")]
        return f"the diagnosis of {' and '.join(unknown)} cannot tell" if unknown else ""
    comparable = change.verdict in ("regression", "improvement", "noise")
    return "" if comparable else f"the verdict is {change.verdict}"


def _broken(change: Change, limit: Limit, allowed: Collection[str]) -> Iterator[str]:
    what = "step" if change.first.environment["steps_marked"] else "GPU span"
    if limit.what == "step" and change.step.is_longer(limit.percent):
        yield (
            f"step: the median {what} takes {percent(100 * (change.step.ratio - 1))} longer; the "
            f"limit is {percent(limit.percent)}"
        )
    if limit.what == "kernel":
        yield from _kernels(change, limit.percent)
    if limit.what == "finding":
        for each in change.causes:
            if each.outcome == "new" and each.cause not in allowed:
                yield f"finding: {each.words}"
    if limit.what == "memory":
        before, after = change.first.memory_bytes, change.second.memory_bytes
        if after > before * (1 + limit.percent / 100):
            yield (
                f"memory: {data_size(after)} at the peak instead of {data_size(before)}; the limit "
                f"is {percent(limit.percent)}"
            )


def _kernels(change: Change, most: float) -> Iterator[str]:
    """Kernels of both jobs that take longer in a step, by more than noise and by enough to fail."""
    values = [_by_step(each) for each in (change.first, change.second)]
    ranks = [max(len(each.environment["ranks"]), 1) for each in (change.first, change.second)]
    for kernel in values[1]:
        if kernel not in values[0]:
            continue
        pair = [
            [ns / count for ns in side[kernel]] for side, count in zip(values, ranks, strict=True)
        ]
        more_ns = sum(pair[1]) / len(pair[1]) - sum(pair[0]) / len(pair[0])
        sides = zip((change.first, change.second), pair, strict=True)
        found = significance_of_recordings(*(each.by_recording(own) for each, own in sides))
        if more_ns > LEAST_SHARE * change.first.mean_ns and found.is_longer(most):
            label = change.second.labels.get(kernel, kernel)
            yield (
                f"kernel: {label} takes {percent(100 * (found.ratio - 1))} longer in a step "
                f"(+{duration(more_ns)}); the limit is {percent(most)}"
            )


def _by_step(each: Summary) -> dict[str, list[int]]:
    """Time (ns) of each kernel in each step, over all ranks; 0 in steps without it."""
    steps = each.steps["step"].tolist()
    table = each.kernels.pivot_table(
        index="kernel", columns="step", values="total_ns", aggfunc="sum", fill_value=0
    ).reindex(columns=steps, fill_value=0)
    return dict(zip(table.index.tolist(), table.to_numpy().tolist(), strict=True))
