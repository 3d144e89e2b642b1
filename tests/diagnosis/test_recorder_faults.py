"""Faults of recorders: what is said of the jobs that take no time is no worse than in the docs.

A rule that finds more in a sound recording has more to lose in a broken one, so that it may have to
be counted anew: ``python -m tests.diagnosis.recorder_faults --only JOB``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.recorder_faults.effects import (
    Said,
    effect_of,
    effects,
    is_measured,
    read_job,
    said_of,
)
from tests.diagnosis.recorder_faults.faults import FAULTS, Fault
from tests.diagnosis.recorder_faults.jobs import files_of
from tests.diagnosis.recorder_faults.recording import Recording
from tests.diagnosis.recorder_faults.table import Table

pytestmark = pytest.mark.long

SMALL = (
    "kineto/alexnet",
    "kineto/event_sync_multi_stream",
    "kineto/h100_bert",
    "kineto/mi210_gpu_only",
    "kineto/mi250_toy",
    "kineto/mi300_bert",
    "kineto/sglang_decode_graph",
    "kineto/simple_add",
    "kineto/torch_compile",
    "kineto/triton",
)


SIMULATED_RANKS = ("simulated/slow_gpu", "simulated/input_starvation")
BETWEEN_RANKS = [fault for fault in FAULTS if fault.seen == "by hand"]
"""Traces in one folder that do not belong together."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Recording]:
    paths = write_sample(tmp_path_factory.mktemp("sample"), ranks=2, steps=3, progress=False)
    return read_job(dict(enumerate(paths)))


def finding(cause: str, percent: float, ranks: tuple[int, ...], confidence: str) -> Finding:
    return Finding(
        cause=cause,
        ranks=ranks,
        steps=(),
        sentence="",
        recoverable_ms=percent,
        percent=percent,
        advice=(),
        confidence=confidence,  # type: ignore[arg-type]
    )


def said(*notices: str, **findings: tuple[float, tuple[int, ...], str]) -> Said:
    found = {cause: finding(cause, *each) for cause, each in findings.items()}
    return Said(found, frozenset(notices))


@pytest.mark.parametrize(
    ("percent", "ranks", "confidence", "is_false"),
    [
        (11.9, (0,), "measured", False),
        (12.1, (0,), "measured", True),
        (12.1, (0,), "inconclusive", False),
        (9, (0, 1), "measured", True),
    ],
)
def test_what_a_fault_adds(
    percent: float,
    ranks: tuple[int, ...],
    confidence: str,
    *,
    is_false: bool,
) -> None:
    sound = said(slow_gpu=(9.95, (0,), "measured"))
    effect = effect_of(sound, said(slow_gpu=(percent, ranks, confidence)))
    assert effect.false == (("slow_gpu",) if is_false else ())


def test_what_a_fault_takes_away_and_tells() -> None:
    sound = said("old", slow_gpu=(10, (0,), "measured"), launch_bound=(9, (0,), "inconclusive"))
    effect = effect_of(sound, said("old", host_pause=(5, (0,), "measured")))
    assert (effect.false, effect.lost) == (("host_pause",), ("slow_gpu",))
    assert not effect.is_told
    assert effect_of(sound, said("new")).is_told


def test_a_recording_that_is_written_again_is_the_same(
    sample: Mapping[int, Recording], tmp_path: Path
) -> None:
    paths = write_sample(tmp_path / "as it was", ranks=2, steps=3, progress=False)
    found = diagnosis(open_trace(paths[0].parent, progress=False))
    again = said_of(tmp_path / "again", {rank: each.text() for rank, each in sample.items()})
    assert [*again.findings] == [each.cause for each in found]
    assert any(map(is_measured, found))
    for each in found:
        assert again.findings[each.cause].to_dict() == each.to_dict()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_breaks_the_sample_job(sample: Mapping[int, Recording], fault: Fault) -> None:
    sound = {rank: each.text() for rank, each in sample.items()}
    broken = fault.broken(sample, [*sample])
    assert {*broken} == {*sound}
    assert broken != sound
    assert sound == {rank: each.text() for rank, each in sample.items()}


@pytest.mark.parametrize("name", SMALL)
def test_no_fault_makes_a_diagnosis_worse_than_the_docs_say(
    real_traces: Path,  # noqa: ARG001
    name: str,
    tmp_path: Path,
) -> None:
    assert_no_worse(name, tmp_path, FAULTS)


@pytest.mark.parametrize("name", SIMULATED_RANKS)
def test_ranks_that_do_not_belong_together_make_none_worse(name: str, tmp_path: Path) -> None:
    assert_no_worse(name, tmp_path, BETWEEN_RANKS)


def assert_no_worse(name: str, folder: Path, faults: Iterable[Fault]) -> None:
    job = read_job(files_of(name, folder))
    known = Table.read().effects
    for fault, effect in effects(job, faults, [*job], folder / "broken").items():
        before = known[fault][name]
        now = f"{fault}: {effect}; see how to count anew at the top of this file"
        assert {*effect.false} <= {*before.get("false", ())}, now
        assert effect.is_told or not before["told"], now
        if effect.lost and not effect.is_told:
            assert before.get("lost"), now
