"""Findings that explain the same time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hta_widgets.analyses.diagnosis import Finding
from hta_widgets.analyses.diagnosis.finding import Words
from hta_widgets.analyses.diagnosis.prices import within_the_step
from tests.analyses.diagnosis.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    write_training,
)

EVERYBODY = (0, 1, 2, 3)
A100 = [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8}]
SGEMM = "ampere_sgemm_128x64_tn"


def job(folder, slower, name=SGEMM):
    """Rank 2 takes so many times as long for products."""

    def program(rank, step):
        del step
        ns = round(500 * US * (slower if rank == 2 else 1))
        return [*[Compute(ns, name)] * 10, Meet(EVERYBODY, 20 * US)]

    return diagnosed(write_training(folder, 4, program, deviceProperties=A100))


def test_together_they_cost_no_more_than_the_step(tmp_path):
    """Half of the time of rank 2 is too much, and three quarters would be saved."""
    made = job(tmp_path, 2)

    products, slow = made
    assert (products.cause, slow.cause) == ("no_tensor_cores", "slow_gpu")
    assert products.recoverable_ms == pytest.approx(7.5)
    assert slow.recoverable_ms == pytest.approx(made.period_ns / 1e6 - 7.5)
    assert slow.ranks == (2,)
    assert f"({slow.percent:.3g} %)." in slow.sentence
    assert sum(each.percent for each in made) == pytest.approx(100)


def test_what_others_leave_nothing_of_has_no_price():
    """Missing ranks stay, as something else is to be said of them."""
    about = {"ranks": (3,), "steps": (), "action": ""}
    every = Finding(cause="slow_gpu", sentence="a: 10 ms.", recoverable_ms=10, percent=100, **about)
    missing = Finding(
        cause="missing_rank",
        sentence="b: at least 2 ms.",
        words=Words("b", is_lower_bound=True),
        recoverable_ms=2,
        percent=20,
        **about,
    )
    context = SimpleNamespace(steps=SimpleNamespace(period_ns=10e6))
    kept = within_the_step(context, [missing, every])
    assert [each.cause for each in kept] == ["slow_gpu", "missing_rank"]
    assert kept[1].sentence == "b: counted in other findings."
    assert (kept[1].recoverable_ms, kept[1].percent) == (0, 0)


def test_alone_it_costs_all_of_it(tmp_path):
    made = job(tmp_path, 2, name="ampere_bf16_s16816gemm")
    assert found(made, "slow_gpu").recoverable_ms == pytest.approx(5, rel=0.02)
    assert len(made) == 1


def test_what_fits_into_the_step_keeps_its_price(tmp_path):
    made = job(tmp_path, 1.2)
    assert found(made, "slow_gpu").recoverable_ms == pytest.approx(1, rel=0.02)
    assert sum(each.percent for each in made) < 100
