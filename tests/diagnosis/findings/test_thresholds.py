"""Each threshold of the diagnosis has a case on both sides, and those of its words."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hta_widgets.diagnosis import CAUSES, Limits
from hta_widgets.diagnosis.rules.host_evidence import Within
from hta_widgets.diagnosis.rules.wording import others_wait, part_of_it
from tests.diagnosis.findings import thresholds
from tests.diagnosis.findings.thresholds import Case, cases, check

NO_THRESHOLDS = {
    "units": {
        "what_if.AS_RECORDED",
    },
    "of times that are equal but for their floats, or of their order (tests/diagnosis/replay)": {
        "binding.TIE_NS",
        "network._LATER",
        "replay.MOST_OFF_NS",
        "slack.CRITICAL_NS",
    },
    "how much is solved at once": {"critical_path.SOLVED_TOGETHER"},
    "of a factor that is searched, or that nothing tells (test_recorder)": {
        "replay.HALVINGS",
        "replay.MOST_SLOWED",
        "replay.NEARLY_ALL",
        "replay.USUALLY_SLOWED",
    },
    "of two values there is no median": {"edits._PAIR"},
    "what holds a pause of 1 ms is longer than this already": {"host_work.STRETCH_NS"},
    "how much is shown, not whether": {
        "finding.MOST_GIVEN",
        "finding.MOST_SHOWN",
        "explain_change._WIDTH",
        "compute_facts.MOST_CHAINS",
        "compute_facts.MOST_LISTED",
        "compute_facts.MOST_NAMED",
        "cpu_work.MOST_LISTED",
        "cpu_work.NAME_WIDTH",
        "proof.MOST_WINDOWS",
        "finding.LONGEST_SENTENCE",
        "unfused_elementwise._WORDS",
        "gap_owners.MOST_LISTED",
        "host_evidence._NAME_WIDTH",
        "host_facts.MOST_OVERHEADS",
        "proof.MARGIN",
        "what._ROUNDED_NS",
        "proof.SEEN_AT_ONCE",
        "cause_not_found._MOST_SAMPLED",
        "gpu_bound._NAMED",
        "largest_kernels._NAMED",
        "shape_facts.MOST_LISTED",
        "time_spent.WIDTH",
        "trials.MOST_NAMED",
        "waterfall.MOST_LINES",
        "wording.LONGEST_LIST",
        "wording.MODULE_WIDTH",
        "wording.NAME_WIDTH",
    },
    "between the drifts of clocks (1e-4) and those that are found of other runs (1e-2)": {
        "health.MOST_DRIFT"
    },
    "of the causes of idle time (tests/analyses/test_idle_owners.py)": {
        "idle_gaps.BETWEEN_KERNELS_NS",
        "idle_gaps.DRAINED_AFTER_NS",
        "idle_gaps.DRAINED_BEFORE_NS",
    },
    "what the inputs of an operator are": {
        "compute_facts._FEWEST_DIMENSIONS",
        "compute_facts._MATRICES",
    },
    "bounds of what is absurd or would take too much memory": {
        "cpu_work._MOST_OF_A_RANK",
        "like_kernels._LARGEST",
    },
    "of a comparison of two jobs (tests/diagnosis/change)": {
        "explain_change.LEAST_PERCENT",
        "explain_change.UNEVEN_PERCENT",
        "explain_change._GREW",
        "explain_change._LEAST_OF_IT",
        "explain_change._MOST_SHIFTED",
        "explain_change._LEAST_CHANCE",
        "explain_change._SAME_WORK_PERCENT",
        "comparable.OTHER_SHARE",
        "comparable.PADDING",
        "gate.LEAST_SHARE",
        "several.FEWEST",
        "significance.CONFIDENCE",
        "significance.DRAWS",
        "significance.FEWEST_STEPS",
        "significance.LARGE_PERCENT",
        "significance.MOST_CHANCE",
        "significance._MOST_EXACT",
        "significance._SEED",
        "waterfall.MOST_OF_IT",
        "waterfall._ALIKE_MODULES",
    },
    "how much of a job a baseline keeps (tests/diagnosis/change/test_baseline.py)": {
        "baseline.LARGEST_FILE",
        "baseline.SCHEMA_VERSION",
        "summary.MOST_FOLDED",
        "summary.MOST_KERNELS",
        "summary.MOST_ROWS",
        "summary.MOST_STEPS",
        "time_spent.LONGEST_NAME",
    },
    "of a picture, which no rule looks at (tests/analyses/test_diagnosis.py)": {
        "one_step.BINS",
    },
    "how columns are packed, not what they hold": {"rank_part._SPARSE"},
}

for file in sorted(Path(__file__).parent.glob("test_*.py")):
    if file != Path(__file__):
        importlib.import_module(f"{thresholds.__package__}.{file.stem}")


def waiting(_folder, part):
    """Two ranks, of which one costs 100 ns, and the other waits for a part of this."""
    steps = {"wait": np.array([[0.0], [100.0 * part]]), "wait_p2p": np.zeros((2, 1))}
    return others_wait(SimpleNamespace(ranks=(0, 1), steps=steps), (0,), 100.0)


test_thresholds = cases(
    Case("wording.HALF_OF_COST", waiting, {0.49: "", 0.5: "; the other waits for it"}),
    Case(
        "wording.NEARLY_ALL",
        lambda _, part: f", {part_of_it(part)} in Head",
        {0.994: ", 99.4 % of it in Head", 0.996: ", all of it in Head"},
    ),
    Case(
        "host_evidence._ALL",
        lambda _, part: Within("load", "", part, "").words,
        {0.994: ", 99.4 % of this time inside load", 0.996: ", all of this time inside load"},
    ),
)


def test_each_threshold_has_a_case_on_both_sides():
    others = set().union(*NO_THRESHOLDS.values())
    every = {*thresholds.all_thresholds()}
    missing = sorted(every - others - thresholds.WITH_CASES)
    where = f"{Path(__file__).parent.name}/test_<rule>.py"
    assert not missing, f"add a Case of {', '.join(missing)} to `cases` in {where}"
    gone = sorted((others | thresholds.WITH_CASES) - every)
    assert not gone, f"the diagnosis has no {', '.join(gone)}: take them out here or in {where}"


def test_each_cause_has_a_least_price():
    missing = [cause for cause in CAUSES if cause not in thresholds.WITH_LEAST_PRICE]
    assert not missing, f"add a `least_price` of {', '.join(missing)} to the tests of its rule"


@pytest.mark.parametrize(
    ("asks", "values", "message"),
    [
        (lambda _, factor: factor > Limits().slower_link, (1.49, 1.51), ""),
        (lambda _, factor: factor > Limits().slower_link, (1.59, 1.61), "1.59 to 1.61"),
        (lambda _, factor: factor > Limits().slower_link, (1.3, 1.7), "far apart"),
        (lambda _, factor: factor > 1.5, (1.49, 1.51), "True with a threshold of 1.53"),
    ],
    ids=["good", "another threshold", "loose", "without the threshold"],
)
def test_a_case_fails_that_does_not_depend_on_its_threshold(
    tmp_path, monkeypatch, asks, values, message
):
    case = Case("Limits.slower_link", asks, dict(zip(values, (False, True), strict=True)))
    fails = pytest.raises(AssertionError, match=message) if message else nullcontext()
    with fails:
        check(case, tmp_path, monkeypatch)
