"""What findings cost: by replay, with its bounds, and together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis.finding import LONGEST_SENTENCE, Price, Words
from hta_widgets.panels.bands.bands import together
from hta_widgets.panels.base.finding_rows import finding_rows
from tests.diagnosis.findings import scripts
from tests.diagnosis.findings.pipelines import pipeline
from tests.diagnosis.findings.thresholds import Case, cases, price
from tests.diagnosis.findings.training_jobs import (
    US,
    Compute,
    Meet,
    diagnosed,
    found,
    layers,
    write_training,
)
from tests.kineto_text import call, kernel

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


def test_together_they_cost_less_than_their_sum(tmp_path):
    """Rank 2 needs 10 ms: 2.5 with tensor cores, 5 at the pace of the others, 1.25 with both."""
    made = job(tmp_path, 2)

    products, slow = made
    assert (products.cause, slow.cause) == ("no_tensor_cores", "slow_gpu")
    assert products.recoverable_ms == pytest.approx(7.5, rel=0.01)
    assert slow.recoverable_ms == pytest.approx(5, rel=0.01)
    assert made.joint_ms == pytest.approx(8.75, rel=0.01)
    assert f"({slow.percent:.3g} %)." in slow.sentence


def bubble(folder):
    """Sends between stages are exposed, and the stages wait for them."""
    program = pipeline(4, 4, lambda *_: 300 * US, transfer_ns=lambda *_: 100 * US)
    return diagnosed(write_training(folder, 4, program))


def link(folder):
    program = pipeline(
        4,
        4,
        lambda *_: 300 * US,
        transfer_ns=lambda one, other: (400 if {one, other} == {1, 2} else 20) * US,
    )
    return diagnosed(write_training(folder, 4, program))


@pytest.mark.parametrize("made_by", [lambda folder: job(folder, 2), bubble, link])
def test_together_they_cost_at_least_as_much_as_each_and_no_more_than_the_step(tmp_path, made_by):
    made = made_by(tmp_path)
    assert len(made) > 1
    assert max(each.recoverable_ms for each in made) <= made.joint_ms < made.step_ns / 1e6
    assert made.joint_ms <= sum(each.recoverable_ms for each in made)


def test_costs_are_percents_of_the_step_of_the_job(tmp_path):
    """Ranks of a pipeline begin apart, so that none of their steps is as long on average."""
    made = bubble(tmp_path)
    assert made.step_ns > 1.02 * made.period_ns
    for each in made:
        assert each.percent == pytest.approx(100 * each.recoverable_ms * 1e6 / made.step_ns)


def test_alone_it_costs_all_of_it(tmp_path):
    made = job(tmp_path, 2, name="ampere_bf16_s16816gemm")
    assert found(made, "slow_gpu").recoverable_ms == pytest.approx(5, rel=0.01)
    assert made.joint_ms == pytest.approx(made[0].recoverable_ms)
    assert len(made) == 1


def test_the_total_leaves_out_what_a_price_leaves_out(tmp_path):
    """A host without launches would hide its pauses: 32.4 % were said to bring 44.4 %."""
    one = scripts.Host()
    for number in range(200):
        one.launch(20, takes=30)
        if number % 20 == 19:
            one.launch(1_000)
            one.now += 3_000
    one.events = [each for each in one.events if each["cat"] != "cpu_op"]
    made = scripts.diagnosed(tmp_path, one)
    pauses, launching = made
    assert [pauses.cause, launching.cause] == ["host_pause", "launch_bound"]
    edits = made.replayed.prices["launch_bound"].edits
    assert made.replayed.replay.gain_ns(edits) > 2e6 * launching.recoverable_ms
    for each in made:
        assert made.together([each]).gain_ms == pytest.approx(each.recoverable_ms)
    assert made.joint_ms <= made.steps["idle_ns"].sum() / 1e6


@pytest.mark.parametrize(("length", "own", "is_more"), [(20, 15, False), (10, 20, True)])
def test_a_total_above_the_sum_says_why(tmp_path, length, own, is_more):
    """A host that waits after each launch, and then takes its time: 45 % and 11 % made 76 %."""
    one = scripts.Host()
    for _ in range(200):
        one.launch(length, takes=10)
        one.synchronise("aten::item")
        one.now += own
    made = scripts.diagnosed(tmp_path, one)
    assert {each.cause for each in made} == {"launch_bound", "blocking_sync"}
    assert (made.joint_ms > 1.05 * sum(each.recoverable_ms for each in made)) == is_more
    said = together(made, [])
    assert ("more than their sum: each is partly hidden behind " in said) == is_more


def test_nothing_costs_nothing(tmp_path):
    made = job(tmp_path, 1, name="ampere_bf16_s16816gemm")
    assert (len(made), made.joint_ms) == (0, 0)


def of_kind(folder, what):
    """A job with a cause, and a rank or all of them."""
    if what == "exposed_communication":
        program = [*layers(3, 500 * US), Meet(EVERYBODY, 1500 * US), *layers(1, 500 * US)]
    elif what == "unfused_elementwise":
        kinds = [f"void at::native::vectorized_elementwise_kernel<4, {n}>" for n in "abcd"]
        program = [Compute(500 * US), *(Compute(500 * US, name) for name in kinds)]
    else:
        return job(folder, 1.5, name="ampere_bf16_s16816gemm")
    return diagnosed(write_training(folder, 4, lambda *_: program))


@pytest.mark.parametrize(
    ("cause", "bound", "words"),
    [
        ("exposed_communication", "at most", ": up to 1.5 ms of each 3.51 ms step (42.8 %)."),
        ("unfused_elementwise", "at least", ": at least 1.25 ms of each 2.51 ms step (49.9 %)."),
        ("slow_gpu", "measured", ": 2.5 ms of each 7.53 ms step (33.2 %)."),
    ],
)
def test_a_sentence_says_whether_it_costs_more_or_less(tmp_path, cause, bound, words):
    finding = found(of_kind(tmp_path, cause), cause)
    assert finding.bound == bound
    assert finding.sentence.endswith(words)
    assert finding.lower_ms == finding.recoverable_ms
    assert finding.to_dict()["bound"] == bound


def alone(folder, after_ms, *, before_ms=6.0, transfer_us=1000, limits=None):
    """One rank of two; its products before it meets the other may change nothing, those after do.

    Tensor cores take a quarter of the time. The only step is as long as the last kernel takes.
    """

    def program(rank, step):
        del rank, step
        return [
            Compute(round(before_ms * 1000 * US), SGEMM),
            Meet((0, 1), transfer_us * US),
            Compute(round(after_ms * 1000 * US), SGEMM),
        ]

    folder = write_training(folder, 2, program, steps=1, only=[0], deviceProperties=A100)
    return diagnosed(folder, limits=limits)


def test_where_the_others_are_not_recorded_a_price_has_two_ends(tmp_path):
    """If they are as slow as before, products after the last meeting are all that counts."""
    finding = found(alone(tmp_path, after_ms=2.0), "no_tensor_cores")
    assert (finding.lower_ms, finding.recoverable_ms) == pytest.approx((1.5, 6.0), rel=0.01)
    assert finding.confidence == "measured"
    assert finding.sentence.endswith(": 1.5 ms to 6 ms of each 9 ms step (up to 66.6 %).")
    assert finding.to_dict()["lower_ms"] == pytest.approx(1.5, rel=0.01)


def test_other_ranks_are_not_blamed_where_all_are_recorded(tmp_path, monkeypatch):
    """A whole job of four ranks, some of whose communication was not matched."""
    made = alone(tmp_path, after_ms=2.0)
    finding = found(made, "no_tensor_cores")
    (row,) = finding_rows([finding], made)
    waits = "; the GPU waits in communication for at most 1 ms."
    assert row["doubt"] == f"1.5 ms if other ranks are the bottleneck, 6 ms if not{waits}"
    steps = made.steps.assign(wait_ns=500_000)  # for ranks that are recorded
    (row,) = finding_rows([finding], replace(made, steps=steps))
    assert row["doubt"].endswith("the GPU waits in communication for at most 1.5 ms.")
    monkeypatch.setattr("hta_widgets.panels.base.finding_rows.is_whole", lambda _: True)
    (row,) = finding_rows([finding], made)
    assert " if communication that was not matched is the bottleneck, " in row["doubt"]
    (row,) = finding_rows([replace(finding, less_by="alone")], made)
    assert row["doubt"] == "1.5 ms on its own, 6 ms once the other findings are fixed."


def test_a_price_whose_lower_end_is_not_worth_it_is_inconclusive(tmp_path):
    """5 % of the step are 0.35 ms."""
    made = alone(tmp_path, after_ms=0.1)
    finding = found(made, "no_tensor_cores")
    assert finding.confidence == "inconclusive"
    assert finding.lower_ms == pytest.approx(0.075, rel=0.01)
    assert finding.recoverable_ms == pytest.approx(0.75 * 6.1, rel=0.01)
    (row,) = finding_rows([finding], made)
    waits = "; the GPU waits in communication for at most 1 ms."
    assert row["doubt"].endswith(f" 75 µs if other ranks are the bottleneck, 4.58 ms if not{waits}")
    assert row["doubt"].startswith("Inconclusive: ")


def test_the_notices_say_that_the_others_are_not_recorded(tmp_path):
    made = alone(tmp_path, after_ms=2.0)
    assert any("record all ranks" in each for each in made.notices)


@pytest.mark.parametrize(
    ("ahead_ms", "host_ms", "least_ms", "price_ms"),
    [(60, 8, 2, 7.5), (20, 8, 2, 7.135), (60, 3, 7, 7.5), (60, 10, 0, 7.5), (60, 2, 7.5, 7.5)],
)
def test_faster_kernels_use_up_the_lead_of_a_host_once(
    tmp_path, ahead_ms, host_ms, least_ms, price_ms
):
    """Steps of 10 ms on the GPU, 2.5 with tensor cores; in the long run no less than the host's."""
    one = scripts.Host()
    one.launch(1000 * ahead_ms, name="ampere_bf16_s16816gemm")
    for number in range(5):
        with one.step(number):
            for _ in range(10):
                one.launch(1000, name=SGEMM, takes=100 * host_ms)
    made = scripts.diagnosed(tmp_path, one, gpu={"name": "NVIDIA A100", "computeMajor": 8})
    finding = found(made, "no_tensor_cores")
    assert finding.recoverable_ms == pytest.approx(price_ms, rel=0.001)
    assert finding.lower_ms == pytest.approx(least_ms, rel=0.001)
    (row,) = finding_rows([finding], made)
    if least_ms == price_ms:
        assert finding.less_by == row["doubt"] == ""
        return
    assert finding.less_by == finding.to_dict()["less_by"] == "lead"
    later = f"{f'{least_ms} ms' if least_ms else '0 ns'} in steady state."
    assert " of each 10 ms step at first (7" in finding.sentence
    assert finding.sentence.endswith(f" %), {later}")
    assert row["doubt"].endswith(f"{price_ms:.3g} ms at first, {later}")
    assert finding.confidence == ("measured" if least_ms else "inconclusive")


def contradicting(one):
    """A kernel that a later one waits for, but that is launched when that one is done.

    Once: as if the clock of one stream were wrong.
    """
    at = one.now
    one.events += [
        call(at, 5, 9001),
        kernel(at + 50, 10, correlation=9001),
        call(at + 6, 56, 9002, name="cudaDeviceSynchronize"),
        kernel(at + 20, 20, stream=99, correlation=9003),
        call(at + 100, 5, 9003),
    ]
    one.now = one.free = at + 200


@pytest.mark.parametrize("contradicts", [False, True])
def test_times_that_contradict_each_other_are_not_replayed(tmp_path, contradicts):
    """Then a price is the ranks' own time: a copy takes 1 ms, 10 µs of which the host hides."""
    one = scripts.Host()
    for number in range(5):
        with one.step(number):
            name = "Memcpy HtoD (Pageable -> Device)"
            one.launch(1000, name=name, cat="gpu_memcpy", bytes=8_000_000)
            for _ in range(10):
                one.launch(200)
            one.synchronise()
            if contradicts and number == 1:
                contradicting(one)
    made = scripts.diagnosed(tmp_path, one)

    finding = found(made, "slow_host_copies")
    cost_ms, confidence = (1, "inconclusive") if contradicts else (0.99, "measured")
    assert finding.recoverable_ms == pytest.approx(cost_ms, rel=0.001)
    assert finding.confidence == confidence
    assert any("contradict" in each for each in made.notices) == contradicts
    assert made.joint_ms == (0 if contradicts else finding.recoverable_ms)
    assert bool(made.bound_by) != contradicts


TEXTS = st.text(alphabet="ab: .%", max_size=LONGEST_SENTENCE)


@given(words=TEXTS, detail=TEXTS, cost=st.text(alphabet="12 ms%", min_size=1, max_size=80))
def test_a_sentence_ends_with_its_price_however_long_it_is(words, detail, cost):
    sentence = Words(words, detail).sentence(cost)
    assert sentence.endswith(f": {cost}.")
    assert len(sentence) <= LONGEST_SENTENCE
    assert detail in sentence or len(words + detail) + len(cost) + 3 > LONGEST_SENTENCE


def test_a_price_that_is_counted_has_one_end():
    assert Price.counted(3.0, "at least") == Price(3.0, 3.0, "at least", ())


def tiny(folder, least_ms):
    """Steps of a few hundred µs, of which a slow GPU costs the others this part."""

    def program(rank, step):
        del step
        ns = round((0.2 + least_ms * (rank == 2)) * 1000 * US)
        return [Compute(ns, shape="[[8]]"), Meet(EVERYBODY, 20 * US), Compute(10 * US)]

    return price(diagnosed(write_training(folder, 4, program, steps=2)), "slow_gpu")


def has_two_ends(folder, part):
    """The price, if products after the last meeting are this part of all."""
    made = alone(folder, after_ms=6 * part, before_ms=6 * (1 - part))
    return " to " in found(made, "no_tensor_cores").sentence.rpartition(":")[2]


def has_unknown_peers(folder, percent):
    """Communication with a rank that is not recorded takes this part of a step."""
    made = alone(folder, after_ms=2.0, transfer_us=8001 * percent / (100 - percent))
    finding = found(made, "no_tensor_cores")
    return finding.lower_ms < finding.recoverable_ms


def hidden(folder, factor):
    """Tensor cores save so many times as much of the GPU's time if the host keeps up."""
    one = scripts.Host()
    for number in range(3):
        with one.step(number):
            for _ in range(10):
                one.launch(400, name=SGEMM, takes=1000)
            one.launch(4000 / (factor - 1), name=SGEMM)
            one.synchronise()
    made = scripts.diagnosed(folder, one, gpu={"name": "NVIDIA A100", "computeMajor": 8})
    return "if the host kept up" in found(made, "no_tensor_cores").sentence


test_thresholds = cases(
    Case("Limits.least_ms", tiny, {0.0985: None, 0.102: 0.102}),
    Case("finding.NEARLY", has_two_ends, {0.94: True, 0.96: False}),
    Case("replay.MOST_UNMATCHED", has_unknown_peers, {1.98: False, 2.02: True}),
    Case("wording.MUCH_MORE", hidden, {1.9: False, 2.1: True}),
)
