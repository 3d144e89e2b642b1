"""Limits: just kept and just broken, and said to be unknown where they are."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.gate import Limit, judge, read_limits
from hta_widgets.errors import ParameterError
from tests.diagnosis.change.made import finding, job_of

STEP_NS = 100_000_000


def _job(kernel_ns: int = 10_000_000, step_ns: int = STEP_NS, **given):
    rows = [("compute", "", "aten::mm", "gemm", kernel_ns)]
    return job_of([*rows, ("gap_op", "", "", "call", step_ns - kernel_ns)], **given)


def _outcome(first, second, limit, allowed=()):
    return judge(explain_change(first, second), [Limit.parse(limit)], allowed).outcome


@pytest.mark.parametrize(
    ("step_ns", "outcome"), [(101_990_000, "passed"), (102_010_000, "regression")]
)
def test_a_step_may_take_so_much_longer(step_ns, outcome):
    assert _outcome(_job(), _job(step_ns=step_ns), "step:2%") == outcome
    assert _outcome(_job(), _job(step_ns=step_ns), "step:3%") == "passed"
    assert _outcome(_job(step_ns=step_ns), _job(), "step") == "passed"


@pytest.mark.parametrize(
    ("kernel_ns", "outcome"),
    [(10_499_000, "passed"), (10_510_000, "regression"), (9_000_000, "passed")],
)
def test_a_kernel_may_take_so_much_longer(kernel_ns, outcome):
    assert _outcome(_job(), _job(kernel_ns), "kernel:5%") == outcome


def test_a_small_kernel_fails_nothing():
    assert _outcome(_job(1_000_000), _job(1_490_000), "kernel:5%") == "passed"
    assert _outcome(_job(1_000_000), _job(1_510_000), "kernel:5%") == "regression"


def test_a_kernel_that_only_one_job_has_is_no_slower_kernel():
    other = job_of([("compute", "", "aten::mm", "another", STEP_NS)])
    assert _outcome(_job(), other, "kernel:5%") == "passed"


def test_a_new_finding_fails_unless_it_is_allowed():
    before = _job(findings=(finding("launch_bound", 5.0),))
    after = _job(findings=(finding("launch_bound", 9.0), finding("host_pause", 2.0)))
    assert _outcome(before, after, "finding") == "regression"
    assert _outcome(before, after, "finding", ["host_pause"]) == "passed"
    assert _outcome(after, before, "finding") == "passed"
    assert _outcome(before, _job(status="cannot_tell"), "finding") == "cannot_tell"


@pytest.mark.parametrize(("size", "outcome"), [(1050, "passed"), (1051, "regression")])
def test_memory_may_grow_so_much(size, outcome):
    assert _outcome(_job(memory_bytes=1000), _job(memory_bytes=size), "memory:5%") == outcome


def test_what_was_not_recorded_cannot_be_told():
    assert _outcome(_job(), _job(memory_bytes=5), "memory") == "cannot_tell"
    assert _outcome(_job(steps=3), _job(), "step") == "cannot_tell"
    assert _outcome(_job(gpus=["other"]), _job(), "step") == "cannot_tell"


def test_a_broken_limit_counts_more_than_one_that_cannot_be_checked():
    change = explain_change(_job(), _job(step_ns=2 * STEP_NS))
    found = judge(change, [Limit.parse("memory"), Limit.parse("step")])
    assert found.outcome == "regression"
    assert len(found.untold) == len(found.broken) == 1


@pytest.mark.parametrize("text", ["", "step:", "step:x", "steps", "finding:2%", "step:-1%", "all"])
def test_other_limits_are_refused(text):
    with pytest.raises(ParameterError, match="is not a limit"):
        Limit.parse(text)


def test_limits_without_a_number_have_one():
    assert [Limit.parse(each).percent for each in ("step", "kernel", "memory")] == [2, 5, 5]


def test_limits_of_a_file(tmp_path):
    path = tmp_path / "limits"
    path.write_text("# of the nightly job\nstep:3%\nkernel  # 5 %\n\nallow warm_up\nfinding\n")
    limits, allowed = read_limits(path)
    assert limits == [Limit("step", 3.0), Limit("kernel", 5.0), Limit("finding", 0.0)]
    assert allowed == ["warm_up"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no limit"),
        ("allow warm_up", "has no limit"),
        ("step:2%\nsteps:2%", "line 2 of .*'steps:2%' is not a limit.*or allow CAUSE"),
        ("allow", "line 1"),
        ("allow one two", "line 1"),
    ],
)
def test_a_file_without_limits_says_which_line_is_wrong(tmp_path, text, said):
    (tmp_path / "limits").write_text(text)
    with pytest.raises(ParameterError, match=said):
        read_limits(tmp_path / "limits")
    with pytest.raises(ParameterError, match="cannot be read: No such file"):
        read_limits(tmp_path / "none")
