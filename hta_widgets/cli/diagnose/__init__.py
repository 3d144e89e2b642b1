"""``hta-widgets diagnose``: why a job is slow, without Jupyter."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import Final

from hta_widgets.cli.compare.report import report as change_text
from hta_widgets.cli.diagnose.document import json_text
from hta_widgets.cli.traces import open_given
from hta_widgets.diagnosis.analysis import diagnose
from hta_widgets.diagnosis.change.baseline import read_baseline
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.report import report as report_text
from hta_widgets.errors import ParameterError
from hta_widgets.terminal import say

FAILURES: Final = {"findings": 3, "cannot_tell": 4, "no_gpu_work": 4}
"""Exit code by status of the diagnosis, if the caller asks to fail."""


def print_diagnosis(options: Namespace) -> int:
    """Print a diagnosis and return the exit code of the command."""
    baseline, ranks = options.baseline, options.ranks
    if baseline is not None and (options.json or ranks is not None):
        msg = "--baseline compares all ranks, as text; hta-widgets compare --json prints JSON"
        raise ParameterError(msg)
    job = open_given(
        options.traces,
        cycle=options.cycle,
        captures=options.captures,
        include_last_profiler_step=options.last_step,
    )
    diagnosis = diagnose(job, ranks, phase=options.phase)
    if baseline is not None:
        change = explain_change(read_baseline(baseline, options.baselines), job)
    text = partial(report_text, in_full=options.all, in_shell=True)
    say(json_text(diagnosis) if options.json else text(diagnosis))
    if baseline is not None:
        say(f"\nSince the baseline: {change_text(change)}")
    return FAILURES.get(diagnosis.status, 0) if options.fail_on_findings else 0
