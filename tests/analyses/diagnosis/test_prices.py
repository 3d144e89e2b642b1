"""Findings that explain the same time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis import Finding, Limits
from hta_widgets.diagnosis.analysis import within_the_step
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import LONGEST_SENTENCE, Words
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.diagnosis.rules.host_pause import host_pause
from hta_widgets.diagnosis.rules.slow_gpu import slow_gpu
from tests.analyses.diagnosis.thresholds import Case, cases, price
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


TEXTS = st.text(alphabet="ab: .%", max_size=LONGEST_SENTENCE)


@given(words=TEXTS, detail=TEXTS, left_ms=st.floats(0.6, 4), is_lower_bound=st.booleans())
def test_at_a_new_price_a_sentence_is_that_of_a_finding_at_this_price(
    words, detail, left_ms, is_lower_bound
):
    """Colons in words, and "at least", say nothing of the price, and a longer one may fit less."""
    steps = Steps((0,), (1,), {"period": np.array([[10e6]])})
    context = Context(None, steps, steps, {}, Limits(), None)
    about = {"ranks": (0,), "steps": (1,), "action": ""}

    def costing(ms):
        return context.finding(
            slow_gpu,
            words=f"at least {words}",
            detail=detail,
            recoverable_ns=ms * 1e6,
            is_lower_bound=is_lower_bound,
            **about,
        )

    dear = context.finding(host_pause, words="a", recoverable_ns=(10 - left_ms) * 1e6, **about)
    again = within_the_step(context, [costing(left_ms + 1), dear])[1]
    fresh = costing(left_ms)
    assert again.recoverable_ms == pytest.approx(left_ms)
    assert again.sentence == fresh.sentence
    assert len(again.sentence) <= LONGEST_SENTENCE
    assert again.to_dict()["is_lower_bound"] is is_lower_bound


def test_alone_it_costs_all_of_it(tmp_path):
    made = job(tmp_path, 2, name="ampere_bf16_s16816gemm")
    assert found(made, "slow_gpu").recoverable_ms == pytest.approx(5, rel=0.02)
    assert len(made) == 1


def test_what_fits_into_the_step_keeps_its_price(tmp_path):
    made = job(tmp_path, 1.2)
    assert found(made, "slow_gpu").recoverable_ms == pytest.approx(1, rel=0.02)
    assert sum(each.percent for each in made) < 100


@pytest.mark.parametrize(("left_ms", "is_kept"), [(0.49, False), (0.51, True)])
def test_what_others_leave_too_little_of_explains_nothing(left_ms, is_kept):
    steps = Steps((0,), (1,), {"period": np.array([[10e6]])})
    context = Context(None, steps, steps, {}, Limits(), None)
    about = {"words": "a", "ranks": (0,), "steps": (1,), "action": ""}
    dear = context.finding(host_pause, recoverable_ns=(10 - left_ms) * 1e6, **about)
    other = context.finding(slow_gpu, recoverable_ns=1e6, **about)

    kept = within_the_step(context, [dear, other])
    assert [each.cause for each in kept] == ["host_pause", "slow_gpu"][: 1 + is_kept]


def tiny(folder, least_ms):
    """Steps of a few hundred µs, of which a slow GPU costs the others this part."""

    def program(rank, step):
        del step
        ns = round((0.2 + least_ms * (rank == 2)) * 1000 * US)
        return [Compute(ns, shape="[[8]]"), Meet(EVERYBODY, 20 * US), Compute(10 * US)]

    return price(diagnosed(write_training(folder, 4, program, steps=2)), "slow_gpu")


test_thresholds = cases(Case("Limits.least_ms", tiny, {0.0985: None, 0.102: 0.102}))
