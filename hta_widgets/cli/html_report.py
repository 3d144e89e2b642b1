"""``hta-widgets report``: the dashboard of a job as one HTML file, without Jupyter."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import closing

from hta_widgets.cli.traces import given_baseline, open_given
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.panels.base.report.page import report_target
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.dashboard import Dashboard
from hta_widgets.quantities import data_size
from hta_widgets.terminal import printable, say
from hta_widgets.trace.job import Job


def write_dashboard(options: Namespace) -> None:
    """Write the dashboard of a job to an HTML file."""
    cycle = options.compare_cycle
    report_target(options.output)
    job = open_given(options.traces, cycle=options.cycle, captures=options.captures)
    selection = Selection.of(job)
    selection.ranks = [] if options.ranks is None else list(job.select_ranks(options.ranks))
    selection.is_on_page = True  # panels compute only when `to_html` asks, under its progress bar
    later: Job | Summary | None
    if options.compare is None:
        later = None if cycle is None else job.open_cycle(cycle)
    else:
        kept = given_baseline(options.compare, cycle)
        later = open_given([options.compare], cycle=cycle) if kept is None else kept
    with closing(Dashboard(job, compare=later)) as dashboard:
        written = dashboard.to_html(options.output, progress=sys.stderr.isatty())
    say(f"Wrote {printable(str(written))} ({data_size(written.stat().st_size)})\n")
