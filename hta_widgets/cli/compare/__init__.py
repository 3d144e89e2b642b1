"""``hta-widgets compare`` and ``baseline``: what changed between two jobs, within which limits."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hta_widgets.cli.compare.document import json_text, several_json
from hta_widgets.cli.compare.markdown import markdown as markdown_text
from hta_widgets.cli.compare.markdown import several_markdown
from hta_widgets.cli.compare.report import baseline_text, several_report
from hta_widgets.cli.compare.report import report as report_text
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.change.baseline import (
    baseline_file,
    baselines,
    read_baseline,
    write_baseline,
)
from hta_widgets.diagnosis.change.explain_change import Change, explain_change
from hta_widgets.diagnosis.change.gate import Judgement, Limit, judge, read_limits
from hta_widgets.diagnosis.change.several import FEWEST, SeveralJobs, several_jobs, side
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.errors import ParameterError
from hta_widgets.quantities import data_size
from hta_widgets.terminal import printable, say

EXIT_CODES: Final = {"passed": 0, "regression": 3, "cannot_tell": 4}
"""Exit code by outcome of the limits."""

FORMS: Final[dict[str, Callable[[Change, Judgement | None], str]]] = {
    "text": report_text,
    "json": json_text,
    "markdown": markdown_text,
}
SEVERAL: Final[dict[str, Callable[[SeveralJobs], str]]] = {
    "text": several_report,
    "json": several_json,
    "markdown": several_markdown,
}


def print_change(options: Namespace) -> int:
    """Print what changed from one job to another and return the exit code of the command."""
    traces, baseline, folder = options.traces, options.baseline, options.baselines
    named, excepted = ([], []) if options.limits is None else read_limits(options.limits)
    asked = [*named, *(Limit.parse(each) for each in options.fail_on)]
    allowed = [*excepted, *options.allow]
    known = {each.name for each in ALL_CAUSES}
    for cause in allowed:
        if cause not in known:
            msg = f"no cause is called {cause[:80]!r}; the causes are {', '.join(sorted(known))}"
            raise ParameterError(msg)
    if len(traces) + (baseline is not None) < FEWEST:
        msg = (
            "one path was given: give two, the earlier one first, or one and --baseline NAME; if "
            "a job has several files, give their folder"
        )
        raise ParameterError(msg)
    if len(traces) + (baseline is not None) > FEWEST:
        if asked:
            msg = "limits work for two jobs: compare each job with the first in its own command"
            raise ParameterError(msg)
        earlier = [] if baseline is None else [read_baseline(baseline, folder)]
        say(SEVERAL[options.form](several_jobs([*earlier, *map(_opened, traces)])))
        return 0
    first = _opened(traces[0]) if baseline is None else read_baseline(baseline, folder)
    change = explain_change(first, _opened(traces[-1]))
    judgement = judge(change, asked, allowed) if asked else None
    say(FORMS[options.form](change, judgement))
    return EXIT_CODES[judgement.outcome] if judgement else 0


def _opened(source: str) -> Summary:
    """The summary of a job, or of its recordings, which commas separate."""
    parts = source.split(",")
    is_one = len(parts) == 1 or "://" in source or Path(source).exists()
    return side(source if is_one else parts, progress=sys.stderr.isatty())


def keep_baseline(options: Namespace) -> None:
    """Save a baseline of a job, show one, or list the names of all in a folder."""
    folder = options.baselines
    if options.action == "save":
        path = baseline_file(options.name, folder)
        size = write_baseline(_opened(options.trace), path)
        say(f"wrote {printable(str(path))} ({data_size(size)})\n")
        return
    if options.action == "show":
        say(baseline_text(read_baseline(options.name, folder)))
        return
    names = baselines(folder)
    if not names:
        say(
            f"no baselines in {printable(str(folder))}; to write one: hta-widgets baseline save "
            "NAME PATH\n"
        )
    for name in names:
        say(f"{printable(name)}\n")
