"""Cases on both sides of the thresholds of the diagnosis, and a list of all thresholds."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from hta_widgets.diagnosis import Diagnosis, Limits, diagnosis

PACKAGES = (
    "hta_widgets.diagnosis",
    "hta_widgets.analyses.budget",
    "hta_widgets.trace.model.health",
)
FIRST_RULES = ("autotuning", "warm_up")

NEAR = 0.15
"""Part of a threshold by which the values beside it differ at most; counts differ by 1."""

WITH_CASES: set[str] = set()
"""Thresholds that some file of tests has a case for."""

WITH_LEAST_PRICE: set[str] = set()
"""Causes that are known to be reported from their least price on."""


class Case(NamedTuple):
    """What is said on both sides of a threshold.

    Attributes
    ----------
    threshold : str
        Its module and name, or ``Limits`` and a field.
    asks : callable
        From an empty folder and a value, in the unit of the threshold, to what is said.
    said : mapping
        What is said of a value just below the threshold and of one just above it, ascending; or,
        of a factor in a price, of the factor alone.
    moved : float, optional
        Another threshold, with which something else is said of the last value. When not given, it
        is as far above that value as this is above the first.
    """

    threshold: str
    asks: Callable[[Path, Any], Any]
    said: Mapping[float, Any]
    moved: float | None = None


def cases(*rows: Case) -> Callable[..., None]:
    """A test of each row."""
    WITH_CASES.update(each.threshold for each in rows)

    @pytest.mark.parametrize("case", rows, ids=[each.threshold for each in rows])
    def test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
        check(case, tmp_path, monkeypatch)

    return test


def check(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the threshold has another value, or if what is said does not depend on it."""
    values = sorted(case.said)
    is_at = value_of(case.threshold)
    assert values[0] <= is_at <= values[-1], f"{is_at} is not {values[0]} to {values[-1]}"
    apart = values[-1] - values[0]
    are_counts = all(isinstance(value, int) for value in values)
    assert apart <= NEAR * is_at or (are_counts and apart == 1), f"{values} are far apart"
    for number, value in enumerate(values):
        found = case.asks(_new(folder / f"{number}"), value)
        assert found == _nearly(case.said[value]), f"{found} at {value}"
    last = values[-1]
    moved = last + (apart or last / 2) if case.moved is None else case.moved
    move(monkeypatch, case.threshold, moved)
    try:
        found = case.asks(_new(folder / "moved"), last)
    finally:
        forget()
    assert found != _nearly(case.said[last]), f"{found} with a threshold of {moved}"


def least_price(
    cause: str, field: str, asks: Callable[[Path], Diagnosis]
) -> Callable[[Path], None]:
    """A test that a cause is reported if it costs its limit, and not if it costs less.

    Parameters
    ----------
    cause : str
    field : str
        Of `Limits`: the least share of the mean step.
    asks : callable
        From an empty folder to the diagnosis of a job with this cause.
    """
    WITH_LEAST_PRICE.add(cause)

    def test(tmp_path: Path) -> None:
        made = asks(tmp_path)
        costs = share(made, cause)
        assert costs is not None, made.finding
        for part, is_said in ((0.99, True), (1.01, False)):
            limits = Limits(**{field: part * costs})
            again = diagnosis(made.job, limits=limits)
            assert (share(again, cause) is not None) == is_said, limits.percent_of(cause)

    return test


def price(made: Diagnosis, cause: str) -> float | None:
    """What a cause costs (ms); None if it is not found."""
    return next((each.recoverable_ms for each in made if each.cause == cause), None)


def share(made: Diagnosis, cause: str) -> float | None:
    """The same in percent of the mean step of the median rank; None if no price is said."""
    cost_ms, steps = price(made, cause), made.steps
    if cause not in FIRST_RULES:
        steps = steps[~steps["step"].isin(made.left_out_steps)]
    period_ns = float(steps.groupby("rank")["period_ns"].mean().median())
    return 100 * cost_ms * 1e6 / period_ns if cost_ms else None


def all_thresholds() -> tuple[str, ...]:
    """Fields of `Limits`, and numbers that the modules of the diagnosis name."""
    of_limits = [f"Limits.{each.name}" for each in fields(Limits)]
    named = [f"{key}.{name}" for key, module in _modules().items() for name in _numbers(module)]
    return (*of_limits, *named)


def value_of(threshold: str) -> float:
    """The value of a threshold."""
    holder, _, name = threshold.rpartition(".")
    return float(getattr(Limits() if holder == "Limits" else _modules()[holder], name))


def move(monkeypatch: pytest.MonkeyPatch, threshold: str, value: float) -> None:
    """Give a threshold another value, wherever it is used."""
    holder, _, name = threshold.rpartition(".")
    if holder == "Limits":
        monkeypatch.setitem(Limits.__init__.__kwdefaults__, name, value)
        return
    for key, module in _modules().items():
        is_number = type(vars(module).get(name)) in {int, float}
        if is_number and (key == holder or name not in _numbers(module)):
            monkeypatch.setattr(module, name, value)
    forget()


def forget() -> None:
    """Forget what functions keep, which they found with another value of a threshold."""
    for module in _modules().values():
        for each in vars(module).values():
            if hasattr(each, "cache_clear"):
                each.cache_clear()


@cache
def _modules() -> dict[str, ModuleType]:
    """Modules of the diagnosis by the last part of their names."""
    names = [
        each.name
        for package in PACKAGES
        for each in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    ]
    names.append("hta_widgets.analyses.budget.idle_gaps")
    return {name.rpartition(".")[2]: importlib.import_module(name) for name in names}


@cache
def _numbers(module: ModuleType) -> list[str]:
    """Names that a module gives to numbers."""
    found = []
    for node in ast.parse(Path(module.__file__ or "").read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and type(value.value) in {int, float}:
            found += [each.id for each in targets if isinstance(each, ast.Name)]
    return found


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _nearly(said: Any) -> Any:
    return pytest.approx(said, rel=0.01) if isinstance(said, float | list) else said
