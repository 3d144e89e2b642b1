"""``hta-widgets report``: the dashboard of a job as one HTML file, without Jupyter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from hta_widgets.panels.base.report.write import report_target
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.dashboard import Dashboard
from hta_widgets.quantities import data_size
from hta_widgets.terminal import printable, say
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace

INTERRUPTED: Final = 130
"""Exit code of a shell's command that Ctrl-C ended: no report was written."""


def write_dashboard(
    traces: Sequence[str],
    ranks: Sequence[int] | None,
    output: Path,
    *,
    cycle: int | None = None,
    captures: str | None = None,
    compare: str | None = None,
    compare_cycle: int | None = None,
) -> int:
    """Write the dashboard of a job to an HTML file and return the exit code of the command.

    Parameters
    ----------
    traces : sequence of str
        Paths or URLs.
    ranks : sequence of int, optional
        Those that are selected, all when not given.
    output : Path
        Of the file; an earlier report is replaced.
    cycle : int, optional
    captures : str, optional
        As in `open_trace`.
    compare : str, optional
        Path or URL of a second job.
    compare_cycle : int, optional
        Cycle of the second job, or of the first if there is no second.
    """
    source = traces[0] if len(traces) == 1 else traces
    progress = sys.stderr.isatty()
    try:
        report_target(output)
        job = open_trace(source, cycle=cycle, captures=captures, progress=progress)
        selection = Selection.of(job)
        selection.ranks = [] if ranks is None else list(job.select_ranks(ranks))
        selection.is_on_page = True  # no panel computes before `to_html` asks it, with its bar
        if compare is not None:
            later: Job | None = open_trace(compare, cycle=compare_cycle, progress=progress)
        else:
            later = None if compare_cycle is None else job.open_cycle(compare_cycle)
        with closing(Dashboard(job, compare=later)) as dashboard:
            written = dashboard.to_html(output, progress=progress)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return INTERRUPTED
    say(f"Wrote {printable(str(written))} ({data_size(written.stat().st_size)})\n")
    return 0
