"""What became of the findings of a job, against the diagnoses of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hta_widgets import diagnose
from hta_widgets.diagnosis import compared_findings as module
from hta_widgets.diagnosis.compared_findings import compare_findings
from hta_widgets.diagnosis.facts.not_recorded import NotRecorded
from hta_widgets.quantities import duration
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, write
from tests.simulator import write_job


@pytest.fixture(scope="module")
def slow(tmp_path_factory) -> Job:
    """The sample job: four findings."""
    folder = tmp_path_factory.mktemp("slow")
    write_sample(folder, ranks=4, steps=3, progress=False)
    return open_trace(folder, progress=False)


@pytest.fixture(scope="module")
def starved(tmp_path_factory) -> Job:
    """Another job, which waits for data and does nothing else wrong."""
    folder = tmp_path_factory.mktemp("starved")
    write_job(folder, "input_starvation", ranks=2, steps=3)
    return open_trace(folder, progress=False)


def test_every_finding_of_both_has_its_outcome(slow, starved):
    before, after = diagnose(slow), diagnose(starved)
    found = compare_findings(slow, starved)
    outcomes = {each.finding.cause: each.outcome for each in found.findings}
    causes = {each.cause for each in before}, {each.cause for each in after}
    assert causes == ({*outcomes}, {"input_starvation"})
    assert outcomes.pop("input_starvation") == "still"
    assert {*outcomes.values()} == {"gone"}
    prices = [each.most_ms for each in found.findings]
    assert prices == sorted(prices, reverse=True)
    assert found.finding.endswith(f"Of {len(before)} findings: {len(before) - 1} gone, 1 remain.")
    back = compare_findings(starved, slow)
    assert {each.outcome for each in back.findings} == {"still", "new"}
    assert back.finding.endswith(f"Of 1 finding: 1 remain; {len(before) - 1} new findings.")


def test_words_have_the_prices_of_both(slow, starved):
    before, after = (
        {each.cause: duration(1e6 * each.recoverable_ms) for each in diagnose(job)}
        for job in (slow, starved)
    )
    for each in compare_findings(slow, starved).findings:
        was = f"(was {before[each.finding.cause]})"
        if each.outcome == "still":
            assert each.words.endswith(f" {after[each.finding.cause]} {was}")
        else:
            assert each.words == f"gone {was}"


@pytest.mark.parametrize(
    ("first_ms", "second_ms", "words"),
    [
        (12.6, 44.3, "grew to 44.3 ms (was 12.6 ms)"),
        (44.3, 12.6, "fell to 12.6 ms (was 44.3 ms)"),
        (10, 10.5, "still 10.5 ms (was 10 ms)"),
        (10, 10.6, "grew to 10.6 ms (was 10 ms)"),
        (10.6, 10, "fell to 10 ms (was 10.6 ms)"),
        (0, 10, "still 10 ms (was an unknown time)"),
    ],
)
def test_a_price_that_is_another_is_not_called_still(slow, first_ms, second_ms, words):
    found = diagnose(slow)[0]
    pair = [replace(found, recoverable_ms=float(each)) for each in (first_ms, second_ms)]
    per_step = ("per step", "per step")
    assert module._compared(*pair, per_step, "").words == words


def test_the_classes_are_the_budgets_of_both(slow, starved):
    table = compare_findings(slow, starved).classes.set_index("class")
    for job, column in ((slow, "first_ns"), (starved, "second_ns")):
        every = table.loc["all", column]
        assert every == pytest.approx(diagnose(job).period_ns)
        assert table[column].drop("all").sum() == pytest.approx(every)
    assert (table["delta_ns"] == table["second_ns"] - table["first_ns"]).all()


def test_what_the_second_trace_cannot_tell_is_not_called_gone(slow, starved, monkeypatch):
    lack = NotRecorded("Operators are", "nothing can be told", "Record them")
    full = module._only_lacks(diagnose(slow), diagnose(starved))
    monkeypatch.setattr(module, "_only_lacks", lambda *_: f"{lack.what} not recorded")
    outcomes = {each.outcome for each in compare_findings(slow, starved).findings}
    assert (full, outcomes) == ("", {"still", "untold"})


def test_a_job_like_itself_has_lost_nothing(slow):
    found = compare_findings(slow, slow)
    assert {each.outcome for each in found.findings} == {"still"}
    assert f"{slow.name} (second) takes as long as {slow.name} (first): " in found.finding


def test_recordings_without_steps_are_not_measured_by_steps(slow, tmp_path):
    path = write(tmp_path / "trace.json", [call(0, 1, 1), kernel(5, 10, correlation=1)])
    found = compare_findings(slow, open_trace(path))
    assert found.units == ("per step", "of the GPU span")
    assert "10 µs of the GPU span" in found.finding
    assert "less time" not in found.finding
    assert {each.outcome for each in found.findings} == {"untold"}


def test_a_job_without_gpu_work_cannot_be_compared(slow, tmp_path):
    empty = open_trace(write(tmp_path / "trace.json", [call(0, 1, 1)]))
    found = compare_findings(slow, empty)
    assert not found.has_work
    assert found.finding == "There is no GPU work in trace.json, so there is nothing to compare."
