"""What is said of a job that need not be looked at."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.report import report
from tests.analyses.generated_jobs import open_job
from tests.diagnosis.findings.scripts import diagnosed
from tests.diagnosis.findings.thresholds import Case, cases
from tests.diagnosis.findings.training_jobs import US, Meet, layers, write_training
from tests.kineto_text import call, host, kernel

PAIR = (0, 1)


def training(folder, ranks=PAIR, *, longer_us=0, transfer_us=200, others=0):
    """Ranks of 5 ms of layers, the last of which may compute longer, and one collective.

    Others, which are not recorded, meet nobody.
    """

    def program(rank, _step):
        length = 500 + (longer_us if rank == ranks[-1] else 0) / 10
        shape = f"[[{length}, 64]]"
        layer = layers(10, int(length * US), shape=shape, grid=int(length))
        return [*layer, *[Meet(ranks, transfer_ns=transfer_us * US)] * (rank in ranks)]

    return diagnosed(write_training(folder, len(ranks) + others, program, only=ranks))


def stalling(folder, hidden_us):
    """Of 1 ms of communication, so much has computation beside it; then the host stalls."""
    late = 13_010
    events = [
        *(call(n, 1, n) for n in range(1, 10)),
        *(kernel(1000 * n, 1000, name="sgemm", correlation=n) for n in range(1, 9)),
        kernel(9000 - hidden_us, 1000, name="ncclDevKernel_AllReduce", correlation=9, stream=20),
        host(9_100, late - 9_100, "aten::index"),
        call(late - 5, 1, 10),
        kernel(late, 8000, name="sgemm", correlation=10),
    ]
    return diagnosis(open_job(folder, [events]))


def test_of_equal_ranks_none_stands_out(tmp_path):
    made = training(tmp_path, (0, 1, 2))
    assert not made
    fine = " 0 % of the communication is hidden. No rank stands out. Otherwise, nothing stands"
    assert fine in made.finding
    assert made.fine == ""


def test_it_is_said_beside_what_all_ranks_have_in_common(tmp_path):
    made = training(tmp_path, (0, 1, 2), transfer_us=1000)
    assert [each.ranks for each in made] == [(0, 1, 2)]
    assert made.fine == "no rank stands out"
    assert "\n    Fine: no rank stands out.\n" in report(made)


def test_ranks_that_are_not_recorded_may_stand_out(tmp_path):
    made = training(tmp_path, transfer_us=1000, others=1)
    assert made.fine == "no recorded rank stands out"


def test_a_rank_of_a_finding_stands_out(tmp_path):
    made = training(tmp_path, (0, 1, 2), longer_us=2000)
    assert [each.ranks for each in made] == [(2,)]
    assert made.fine == ""


def test_a_single_rank_is_compared_with_none(tmp_path):
    assert not stalling(tmp_path, 0).fine


@pytest.mark.parametrize(("us", "is_said"), [(300, True), (500, False)])
def test_communication_that_may_be_waiting_hides_who_is_late(tmp_path, us, is_said):
    """Of 8 ms; not matched, as nothing says which collectives of the ranks are the same."""
    one = [
        *(call(n, 1, n) for n in range(1, 10)),
        *(kernel(1000 * n, 1000, name="sgemm", correlation=n) for n in range(1, 9)),
        kernel(9000, us, name="ncclDevKernel_SendRecv", correlation=9, stream=20),
    ]
    other = [{**each, "ts": each["ts"] + 20_000} for each in one]
    made = diagnosis(open_job(tmp_path, [one, other]))
    assert not made
    assert ("No rank stands out" in made.finding) == is_said


test_cases = cases(
    Case(
        "fine.MOSTLY_HIDDEN",
        lambda folder, hidden: stalling(folder, 10 * hidden).fine,
        {49: "", 51: "51 % of the communication is hidden"},
    ),
    Case(
        "Limits.least_percent",
        lambda folder, part: training(folder, longer_us=60 * part, transfer_us=1000).fine,
        {4.9: "no rank stands out", 5.2: ""},
    ),
)
