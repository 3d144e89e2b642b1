"""``hta-widgets diagnose``: why a job is slow, without Jupyter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hta_widgets.cli.compare.report import report as change_text
from hta_widgets.cli.diagnose.document import json_text
from hta_widgets.diagnosis.analysis import diagnose
from hta_widgets.diagnosis.change.baseline import read_baseline
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.report import report as report_text
from hta_widgets.errors import ParameterError
from hta_widgets.terminal import INTERRUPTED, say
from hta_widgets.trace.opening.open import open_trace

FAILURES: Final = {"findings": 3, "cannot_tell": 4, "no_gpu_work": 4}
"""Exit code by status of the diagnosis, where the caller asks to fail."""


def print_diagnosis(
    traces: Sequence[str],
    ranks: Sequence[int] | None,
    *,
    cycle: int | None = None,
    phase: str | None = None,
    as_json: bool,
    fail_on_findings: bool,
    baseline: tuple[str, Path] | None = None,
) -> int:
    """Print a diagnosis and return the exit code of the command.

    Parameters
    ----------
    traces : sequence of str
        Paths or URLs.
    ranks : sequence of int, optional
        Those that are diagnosed, all when not given.
    cycle : int, optional
        As in `open_trace`.
    phase : str, optional
        As in `diagnose`.
    as_json : bool
        Print the document of ``docs/diagnosis.schema.json`` instead of text.
    fail_on_findings : bool
        Return one of `FAILURES` unless the job is healthy; 0 otherwise.
    baseline : tuple of str and Path, optional
        Name or file of a baseline to say what changed since, and the folder of names.
    """
    if baseline is not None and (as_json or ranks is not None):
        msg = "--baseline is for all ranks, as text; hta-widgets compare --json prints JSON"
        raise ParameterError(msg)
    source = traces[0] if len(traces) == 1 else traces
    try:
        job = open_trace(source, cycle=cycle, progress=sys.stderr.isatty())
        diagnosis = diagnose(job, ranks, phase=phase)
        change = None if baseline is None else explain_change(read_baseline(*baseline), job)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return INTERRUPTED
    say(json_text(diagnosis) if as_json else report_text(diagnosis))
    if change is not None:
        say(f"\nSince the baseline: {change_text(change)}")
    return FAILURES.get(diagnosis.status, 0) if fail_on_findings else 0
